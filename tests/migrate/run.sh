#!/bin/bash
# Moves a live RabbitMQ to Sluice by running the commands of docs/migrate.md, and checks that nothing is lost.
#
#   tests/migrate/run.sh [--install]          --install only installs RabbitMQ and the client
#
# It needs root on a Debian system: RabbitMQ 4.3 and its Erlang run in a root directory of their own, in which debootstrap
# installs them. RABBITMQ_ROOT names that directory (default: .cache/rabbitmq). SLUICE_BIN names the broker (default: the
# newest build of the profiles ci and release). MIGRATE_LOG=yes shows the ends of both logs if something fails.
#
# Both brokers listen on the ports that the page shows. So everything runs in network, mount and process namespaces of its
# own, which also end whatever is still running.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
chroot=${RABBITMQ_ROOT:-$root/.cache/rabbitmq}
# The Debian suite that has RabbitMQ 4.3.
suite=forky

say() { printf '%s\n' "$*"; }

install_rabbitmq() {
    [ ! -e "$chroot/.ready" ] || return 0
    command -v debootstrap >/dev/null || { apt-get update -q && apt-get install -y -q --no-install-recommends debootstrap; }
    local host mirror script=/usr/share/debootstrap/scripts/$suite
    # The mirror that this machine already uses.
    host=$(. /etc/os-release && echo "$VERSION_CODENAME")
    mirror=$(apt-get indextargets --format '$(REPO_URI)' "Codename: $host" 'Created-By: Packages' | head -n 1)
    [ -e "$script" ] || script=/usr/share/debootstrap/scripts/sid
    mkdir -p "$chroot"
    [ -e "$chroot/.bootstrapped" ] || { debootstrap --variant=minbase "$suite" "$chroot" "${mirror%/}" "$script" && touch "$chroot/.bootstrapped"; }
    # Packages must not start services. A mirror may be an old snapshot, whose release files have expired.
    printf '#!/bin/sh\nexit 101\n' >"$chroot/usr/sbin/policy-rc.d" && chmod 755 "$chroot/usr/sbin/policy-rc.d"
    echo 'Acquire::Check-Valid-Until "false";' >"$chroot/etc/apt/apt.conf.d/99snapshot"
    unshare --mount bash -euc 'mount -t proc proc "$1/proc"
        run=(chroot "$1" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive)
        "${run[@]}" apt-get update -q
        "${run[@]}" apt-get install -y -q --no-install-recommends rabbitmq-server' - "$chroot"
    touch "$chroot/.ready"
}

# Writes the programs that the page names: those of RabbitMQ run in its root directory, in the same current directory.
write_programs() {
    local name
    for name in rabbitmqctl rabbitmq-plugins rabbitmq-server; do
        cat >"$work/bin/$name" <<END
#!/bin/bash
exec chroot --userspec=rabbitmq:rabbitmq "$chroot" env -i -C "\$PWD" PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 \\
    HOME=$work/rabbitmq HOSTNAME=localhost ERL_EPMD_ADDRESS=127.0.0.1 RABBITMQ_NODENAME=rabbit@localhost \\
    RABBITMQ_CONFIG_FILE=$work/rabbitmq/rabbitmq RABBITMQ_ENABLED_PLUGINS_FILE=$work/rabbitmq/enabled_plugins \\
    RABBITMQ_PID_FILE=$work/rabbitmq/pid RABBITMQ_MNESIA_BASE=$work/rabbitmq/data RABBITMQ_LOG_BASE=$work/rabbitmq/log \\
    /usr/lib/rabbitmq/bin/$name "\$@"
END
    done
    printf '#!/bin/sh\nexec %q "$@"\n' "$broker" >"$work/bin/sluice"
    chmod 755 "$work/bin"/*
}

start_rabbitmq() {
    mkdir "$work/rabbitmq"
    echo '[rabbitmq_management].' >"$work/rabbitmq/enabled_plugins"
    printf '%s\n' 'listeners.tcp.local = 127.0.0.1:5672' 'management.tcp.ip = 127.0.0.1' 'management.tcp.port = 15672' \
        >"$work/rabbitmq/rabbitmq.conf"
    chroot "$chroot" chown -R rabbitmq:rabbitmq "$work/rabbitmq" "$work/page"
    (cd "$work/page" && exec rabbitmq-server) >"$work/rabbitmq.log" 2>&1 </dev/null &
    for _ in $(seq 240); do
        ! curl -sf -u guest:guest http://127.0.0.1:15672/api/overview >/dev/null || return 0
        sleep 0.5
    done
    say "RabbitMQ did not start:"; tail -n 30 "$work/rabbitmq.log"; exit 1
}

# Runs in the namespaces.
inside() {
    ip link set lo up
    mount --bind "$work" "$chroot$work"
    mount -t proc proc "$chroot/proc"
    echo '127.0.0.1 localhost' >"$work/hosts"
    # A new root directory may have none.
    touch "$chroot/etc/hosts"
    mount --bind "$work/hosts" "$chroot/etc/hosts"
    export PATH=$work/bin:$PATH
    write_programs
    start_rabbitmq
    cd "$work/page"
    local status=0
    "$root/.cache/pika/bin/python" "$here/story.py" "$root/docs/migrate.md" || status=$?
    if [ "$status" != 0 ] && [ "${MIGRATE_LOG:-}" = yes ]; then
        say "--- RabbitMQ's log"; tail -n 60 "$work"/rabbitmq/log/*.log
        say "--- Sluice's log"; tail -n 60 "$work/page/sluice.log"
    fi
    return "$status"
}

if [ "${1:-}" = --inside ]; then
    work=$2 broker=$3
    inside
    exit
fi

[ "$(id -u)" = 0 ] || { say "migrate: needs root, to run RabbitMQ in a root directory of its own"; exit 2; }
install_rabbitmq
"$root/tests/interop/run.sh" --install pika
[ "${1:-}" != --install ] || exit 0
target=${CARGO_TARGET_DIR:-$root/target}
broker=${SLUICE_BIN:-$({ ls -t "$target"/{,*/}{ci,release}/sluice 2>/dev/null || true; } | head -n 1)}
[ -x "$broker" ] || { say "no broker found: cargo build --release -p sluice, or set SLUICE_BIN"; exit 2; }
# The directory has the same path inside and outside RabbitMQ's root directory.
work=$(mktemp -d /srv/migrate.XXXXXX)
trap 'rm -rf "$work" "$chroot$work"' EXIT
trap 'exit 130' INT TERM
chmod 755 "$work"
mkdir -p "$work/bin" "$work/page" "$chroot$work"
unshare --net --mount --pid --fork --kill-child --mount-proc "$here/run.sh" --inside "$work" "$broker"
