//! Settings that an administrator changes while the broker runs. They count until it stops.

use admin::SettingRefusal;

use super::Draft;
use super::keys;
use super::set_values::SetValues;

/// The place of a value that was set while the broker runs.
const AT_RUN_TIME: &str = "at run time";

/// The two forms of each limit. The first of them replaces the second, unless it is [`NO_FORM`].
const FORMS: [(&str, &str); 2] = [
    ("vm_memory_high_watermark.absolute", "vm_memory_high_watermark.relative"),
    ("disk_free_limit.relative", "disk_free_limit.absolute"),
];

/// The value of the first form if the second one counts.
const NO_FORM: &str = "none";

impl SetValues {
    /// Returns these values, which were set at run time, with a new value, or without the one that the key has. The other form of
    /// a limit then has no effect.
    ///
    /// # Errors
    /// There is no such key, it needs a restart, the value is wrong, or there is none to go back from.
    pub(crate) fn changed_at_run_time(
        &self,
        name: &str,
        value: Option<&str>,
    ) -> Result<Self, SettingRefusal> {
        let shown = super::shown(name);
        let Some((key, _)) = keys::find(name) else {
            return Err(SettingRefusal::Missing(format!("there is no setting '{shown}'")));
        };
        if !key.reloads {
            return Err(SettingRefusal::Refused(format!("'{shown}' needs a restart")));
        }
        let name = keys::current_name(name);
        let forms = FORMS.iter().find(|(first, second)| [*first, *second].contains(&name));
        let mut changed = self.clone();
        let mut was_set = changed.remove(name);
        if let Some((first, second)) = forms {
            was_set |= changed.remove(first) | changed.remove(second);
        }
        let Some(value) = value else {
            let missing = || SettingRefusal::Missing(format!("'{name}' was not set at run time"));
            return if was_set { Ok(changed) } else { Err(missing()) };
        };
        Draft::default().set(name, value, AT_RUN_TIME).map_err(SettingRefusal::Refused)?;
        changed.insert(name, value, AT_RUN_TIME);
        if let Some((first, _)) = forms.filter(|(_, second)| *second == name) {
            changed.insert(first, NO_FORM, AT_RUN_TIME);
        }
        Ok(changed)
    }
}

#[cfg(test)]
mod tests {
    use node::{AlarmLimits, Limit};

    use super::super::Config;
    use super::super::layers::Layers;
    use super::*;

    fn file(text: &str) -> SetValues {
        let layers = Layers { files: vec![("f".into(), text.into())], ..Layers::default() };
        Config::of_layers(&layers).unwrap().values
    }

    fn changed(values: &SetValues, key: &str, value: &str) -> SetValues {
        values.changed_at_run_time(key, Some(value)).unwrap()
    }

    fn limits(file: &SetValues, at_run_time: &SetValues) -> AlarmLimits {
        Config::reloadable(&file.overlaid(at_run_time)).alarms
    }

    #[test]
    fn either_form_of_a_limit_replaces_the_other() {
        let none = SetValues::default();
        let absolute = file("vm_memory_high_watermark.absolute = 1GB\ndisk_free_limit.relative = 2\n");
        let relative = file("vm_memory_high_watermark.relative = 0.3\ndisk_free_limit.absolute = 9\n");
        for before in [&none, &absolute, &relative] {
            let set = changed(&none, "vm_memory_high_watermark.relative", "0.5");
            assert_eq!(limits(before, &set).memory, Limit::Relative(0.5));
            let set = changed(&set, "vm_memory_high_watermark.absolute", "5");
            assert_eq!(limits(before, &set).memory, Limit::Absolute(5));
            let set = changed(&set, "vm_memory_high_watermark.relative", "0.7");
            assert_eq!(limits(before, &set).memory, Limit::Relative(0.7));
            let set = changed(&set, "disk_free_limit.absolute", "6");
            assert_eq!(limits(before, &set).disk_free, Limit::Absolute(6));
            let set = changed(&set, "disk_free_limit.relative", "1.5");
            assert_eq!(limits(before, &set).disk_free, Limit::Relative(1.5));
            // One form goes back for both.
            let set = set.changed_at_run_time("disk_free_limit.absolute", None).unwrap();
            let set = set.changed_at_run_time("vm_memory_high_watermark.absolute", None).unwrap();
            assert_eq!(limits(before, &set), limits(before, &none));
        }
    }

    #[test]
    fn what_cannot_change_is_refused() {
        let refused = |key: &str, value: Option<&str>| {
            SetValues::default().changed_at_run_time(key, value).expect_err("it is refused")
        };
        let missing = |why: &str| SettingRefusal::Missing(why.to_owned());
        assert_eq!(refused("log.levle", Some("info")), missing("there is no setting 'log.levle'"));
        assert_eq!(refused("log.level", None), missing("'log.level' was not set at run time"));
        assert_eq!(
            refused("frame_max", Some("8192")),
            SettingRefusal::Refused("'frame_max' needs a restart".to_owned())
        );
        let SettingRefusal::Refused(why) = refused("log.level", Some("loud\n")) else { panic!() };
        assert!(why.starts_with("'log.level' cannot be 'loud\\n': "), "{why}");
    }

    /// The broker shows and logs the values of changes.
    #[test]
    fn no_setting_that_can_change_is_a_secret_or_one_of_many() {
        for key in keys::all().filter(|key| key.reloads) {
            assert!(!key.secret && !key.name.ends_with('*'), "{}", key.name);
        }
    }
}
