//! Reading a composite in its usual form: a short list whose fields have the encodings below [1.6]. Nearly
//! every sender writes this form.
//!
//! ```text
//!   c0 size count |  null 40  |  boolean 41 42  |  ubyte 50 n  |  uint 43, 52 n, 70 nnnn  |  binary a0 len ..  |
//! ```
//!
//! There are no errors here. `None` means that the bytes have another form, rare or wrong. The caller then
//! starts again with a [`Reader`](super::Reader), which accepts all forms and reports errors. Both read the
//! usual form alike.

/// The fields of one composite, in order. Fields missing at the end are read as null.
///
/// Every method is inlined at each call. So `rest` and `left` stay in registers from field to field, which is
/// most of the gain of this reader.
#[derive(Debug)]
pub(crate) struct PlainFields<'a> {
    rest: &'a [u8],
    left: u8,
}

impl<'a> PlainFields<'a> {
    /// Returns the fields of the list at the start of `bytes`, and the bytes after the list.
    #[inline(always)]
    pub(crate) fn of_list(bytes: &'a [u8]) -> Option<(Self, &'a [u8])> {
        let (&[0xc0, size, left], rest) = bytes.split_first_chunk()? else { return None };
        // The size includes the count.
        let (fields, after) = rest.split_at_checked(usize::from(size.checked_sub(1)?))?;
        Some((Self { rest: fields, left }, after))
    }

    /// Consumes the format code of the next field and returns it. Returns `Some(None)` if the field is null
    /// or absent.
    #[inline(always)]
    fn next(&mut self) -> Option<Option<u8>> {
        if self.left == 0 {
            return Some(None);
        }
        self.left -= 1;
        let (code, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(Some(*code).filter(|code| *code != 0x40))
    }

    #[inline(always)]
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (bytes, rest) = self.rest.split_first_chunk()?;
        self.rest = rest;
        Some(*bytes)
    }

    /// Reads a field that must be null.
    #[inline(always)]
    pub(crate) fn null(&mut self) -> Option<()> {
        self.next()?.is_none().then_some(())
    }

    #[inline(always)]
    pub(crate) fn boolean(&mut self) -> Option<Option<bool>> {
        match self.next()? {
            None => Some(None),
            Some(0x41) => Some(Some(true)),
            Some(0x42) => Some(Some(false)),
            Some(_) => None,
        }
    }

    #[inline(always)]
    pub(crate) fn ubyte(&mut self) -> Option<Option<u8>> {
        match self.next()? {
            None => Some(None),
            Some(0x50) => self.take::<1>().map(|[n]| Some(n)),
            Some(_) => None,
        }
    }

    #[inline(always)]
    pub(crate) fn uint(&mut self) -> Option<Option<u32>> {
        match self.next()? {
            None => Some(None),
            Some(0x70) => self.take().map(|bytes| Some(u32::from_be_bytes(bytes))),
            Some(0x43) => Some(Some(0)),
            Some(0x52) => self.take::<1>().map(|[n]| Some(n.into())),
            Some(_) => None,
        }
    }

    #[inline(always)]
    pub(crate) fn binary(&mut self) -> Option<Option<&'a [u8]>> {
        match self.next()? {
            None => Some(None),
            Some(0xa0) => {
                let [len] = self.take()?;
                let (octets, rest) = self.rest.split_at_checked(len.into())?;
                self.rest = rest;
                Some(Some(octets))
            }
            Some(_) => None,
        }
    }

    /// Reads a field with exactly this encoding.
    #[inline(always)]
    pub(crate) fn exactly(&mut self, bytes: &[u8]) -> Option<()> {
        self.left = self.left.checked_sub(1)?;
        self.rest = self.rest.strip_prefix(bytes)?;
        Some(())
    }

    /// Ends the composite. Returns `None` if anything is left.
    #[inline(always)]
    pub(crate) fn finish(self) -> Option<()> {
        (self.left == 0 && self.rest.is_empty()).then_some(())
    }
}
