#!/bin/bash
# Runs real clients against the broker. Each suite gets a newly started broker.
#
#   tests/interop/run.sh [NAME]...            all suites, or the named ones; `amqp10`, `amqp091`, `management`,
#                                             `amqp091-more` and `management-more` name all of these lists. Without a
#                                             name, it runs the first three
#   tests/interop/run.sh --install [NAME]...  only installs what they need
#   tests/interop/run.sh --installed [NAME]...
#                                             installs nothing, because --install has done so. Only then may two runs
#                                             share ./.cache at the same time
#   tests/interop/run.sh --both [NAME]...     runs each suite with classic and again with quorum queues. Without it,
#                                             some suites run with one type, see type_of below
#   tests/interop/run.sh --against BROKER NAME...
#                                             runs suites against a broker that is running already. SLUICE_AMQP and
#                                             SLUICE_HTTP say where, SLUICE_AMQPS and SLUICE_TLS too if it has TLS.
#                                             **Deletes everything** in its virtual host / before each run. The suites
#                                             get the BROKER's name, for example rabbitmq, in SLUICE_AGAINST, and leave
#                                             out the few checks in which Sluice deliberately does more.
#   tests/interop/run.sh --nodes NAME...
#                             runs suites against three nodes of one cluster. The nodes reach each other through pipes, and
#                             bytes take a millisecond there (pipes.py). One link is cut and healed every two seconds. Each connection of AMQP goes to the next node, the
#                             first one to the second node, so queues are on all nodes, and their clients on others. The
#                             management API is that of the second node, so a check fails that looks there for a connection
#                             to another node, or for the port of the pipe. The programs of the documents are left out.
#   tests/interop/run.sh --record rabbitmqadmin
#                                             records the pages again that crates/sluice/tests/rabbitmqadmin.rs plays,
#                                             see rabbitmqadmin/recorder.py
#
# SLUICE_BIN names the broker (default: the newest build of the profiles ci and release). SLUICE_LOG_LINES is the number
# of log lines to show when a suite fails (default: 20). Everything that a suite needs is installed below ./.cache with
# the package manager of its language. A suite whose toolchain is missing is named and skipped; with CI=true this is a
# failure.
#
# A suite receives SLUICE_AMQP, SLUICE_AMQPS and SLUICE_HTTP (all host:port), and SLUICE_TLS, a folder with the authority of
# the broker's certificate (ca.pem) and a certificate of the user guest (client.pem, client.key). It runs named checks. It ends with `NAME: N passed, M
# failed`, and its exit code is not zero if a check failed. SLUICE_QUEUE_TYPE is the type of the queues that its checks
# declare.
#
# After its checks, a suite runs the programs that README.md and pages of docs/ show for its client (snippets.py), with the first
# type of queues.
#
# `tokens` starts an OpenID provider (oidc/provider.js), whose tokens a new broker accepts, and runs the suites with the
# URL of the provider in SLUICE_ISSUER. They then run their checks of tokens instead of the others. All run at the same time,
# because they mostly wait for tokens to expire.
set -uo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
here=$root/tests/interop
cache=$root/.cache
# A suite runs for seconds, so what the second compiler of the virtual machine makes would come too late.
jvm=(-XX:TieredStopAtLevel=1 -XX:+UseSerialGC)
# Clients of AMQP 0.9.1.
amqp091=(pika amqplib amqp091-go lapin amqp-java celery crossing)
# Clients of AMQP 1.0.
amqp10=(proton go-amqp rhea jms fe2o3 rabbitmq-python rabbitmq-go rabbitmq-java tokens)
# Clients of the management API.
management=(rabbit-hole rabbitmq-http-client)
# Further clients of the management API, for `make interop` but not for `make test`. rabbitmqadmin takes minutes to compile,
# and `make unit` plays its recorded requests. Terraform and its provider for RabbitMQ are in no package registry.
# TERRAFORM_PROVIDER names the program of the provider.
management_more=(rabbitmqadmin terraform)
# Further clients of AMQP 0.9.1, for `make interop` but not for `make test`, which has no time for them. Those in C, Ruby
# and PHP need packages of the system: librabbitmq-dev, ruby-bunny and php-amqplib with php-cli, as Debian names them.
amqp091_more=(aio-pika spring-amqp perftest rabbitmq-c bunny php-amqplib)
rabbitmqadmin_version=2.35.0
# The queue type of the suites that run with one type, unless --both asks for both. Two clients of each protocol, those with
# the most checks, have no row and always run with both: proton and jms, pika and amqp091-go. What the other clients do
# differently depends on the client and not on the type, so they are spread over the types. RabbitMQ's own clients of AMQP
# 1.0 and `tokens` do not use SLUICE_QUEUE_TYPE, so they never run twice.
declare -A type_of=(
    [go-amqp]=classic
    [rhea]=quorum
    [fe2o3]=classic
    [amqplib]=classic
    [lapin]=quorum
    [amqp-java]=classic
    [celery]=quorum # its check of delays needs quorum queues
    [crossing]=quorum
    [rabbit-hole]=classic
    [rabbitmq-http-client]=quorum
)
# fe2o3-amqp sends at most 512 bytes before OPEN, so it cannot send a token.
with_tokens=(proton go-amqp rhea jms rabbitmq-python rabbitmq-go rabbitmq-java)

say() { printf '%s\n' "$*"; }

# --- the broker -----------------------------------------------------------------------------------------------------

find_broker() {
    local target=${CARGO_TARGET_DIR:-$root/target}
    broker=${SLUICE_BIN:-$(ls -t "$target"/{,*/}{ci,release}/sluice 2>/dev/null | head -n 1)}
    [ -x "$broker" ] || { say "no broker found: cargo build --profile ci -p sluice, or set SLUICE_BIN"; exit 2; }
}

# Starts a process of the broker, whose data and output are in a folder, with further arguments. It has two event loops, so that
# connections and queues are on different ones.
serve() {
    local dir=$1; shift
    mkdir -p "$dir" && touch "$dir/out"
    "$broker" serve --data-dir "$dir/data" --set listeners.tcp.default=127.0.0.1:0 --set management.tcp.ip=127.0.0.1 \
        --set management.tcp.port=0 --set prometheus.tcp.ip=127.0.0.1 --set prometheus.tcp.port=0 \
        --set listeners.ssl.default=127.0.0.1:0 --set "ssl_options.certfile=$SLUICE_TLS/server.pem" \
        --set "ssl_options.keyfile=$SLUICE_TLS/server.key" --set "ssl_options.cacertfile=$SLUICE_TLS/ca.pem" \
        --set ssl_options.verify=verify_peer --set ssl_cert_login_from=common_name --set shards=2 "$@" \
        >"$dir/out" 2>"$dir/log" </dev/null &
    broker_pids+=($!)
}

# Waits until a process listens. Returns its addresses.
wait_for_broker() {
    local dir=$1 pid=$2
    for _ in $(seq 300); do
        grep -q 'Server startup complete' "$dir/out" && break
        kill -0 "$pid" 2>/dev/null || break
        sleep 0.1
    done
    SLUICE_AMQP=$(grep -o 'amqp://[^ ]*' "$dir/out" | head -n 1 | sed 's|.*@||')
    SLUICE_AMQPS=$(grep -o 'amqps://[^ ]*' "$dir/out" | head -n 1 | sed 's|.*@||')
    SLUICE_HTTP=$(grep -o 'http://[^ ]*/api' "$dir/out" | head -n 1 | sed 's|http://||; s|/api||')
    [ -n "$SLUICE_AMQP" ] && [ -n "$SLUICE_HTTP" ] || { say "the broker did not start:"; tail -n 20 "$dir/log"; return 1; }
}

# Starts a broker, or three nodes of one, with further arguments.
start_broker() {
    dir=$(mktemp -d) && broker_pids=() pipe_pids=()
    if [ -n "$nodes" ]; then
        start_nodes "$@" || return
    else
        serve "$dir/1" "$@" && wait_for_broker "$dir/1" "${broker_pids[0]}" || return
    fi
    export SLUICE_AMQP SLUICE_AMQPS SLUICE_HTTP
}

# Starts pipes, and returns their ports in `ports`.
start_pipes() {
    local out; out=$(mktemp "$dir/pipes.XXXX")
    python3 "$here/pipes.py" "$@" >"$out" 2>"$out.log" </dev/null & pipe_pids+=($!)
    local targets=$#; [ "${1:-}" != --delay-ms ] || targets=$(($# - 4))
    for _ in $(seq 100); do
        mapfile -t ports <"$out"
        [ ${#ports[@]} -lt "$targets" ] || return 0
        sleep 0.1
    done
    say "the pipes did not start"; return 1
}

start_nodes() {
    # The network of this process, so that no other run has these addresses.
    local network=127.$((64 + $$ / 256 % 64)).$(($$ % 256)) n other at=0 targets=() list amqp=() amqps=() http=() ports
    for n in 1 2 3; do
        for other in 1 2 3; do targets+=("$network.$other:25672"); done
    done
    # The link between the second and the third node is cut and healed all the time.
    start_pipes --delay-ms 1 --cut 5,7 "${targets[@]}" || return
    for n in 1 2 3; do
        list=()
        for other in 1 2 3; do
            list+=(--set "cluster_formation.classic_config.nodes.$other=node-$other@127.0.0.1:${ports[at]}"); at=$((at + 1))
        done
        serve "$dir/$n" --set "node.name=node-$n@127.0.0.1" --set "cluster.listener=$network.$n:25672" \
            --set "cluster.secret=only for the tests of foreign clients" "${list[@]}" "$@"
    done
    for n in 1 2 3; do
        wait_for_broker "$dir/$n" "${broker_pids[n - 1]}" || return
        amqp+=("$SLUICE_AMQP") amqps+=("$SLUICE_AMQPS") http+=("$SLUICE_HTTP")
    done
    for _ in $(seq 300); do
        [ "$(grep -ch 'now votes about definitions' "$dir"/?/log | sort -n | tail -n 1)" = 2 ] && break
        sleep 0.1
    done
    start_pipes "${amqp[1]},${amqp[2]},${amqp[0]}" "${amqps[1]},${amqps[2]},${amqps[0]}" || return
    SLUICE_AMQP=127.0.0.1:${ports[0]} SLUICE_AMQPS=127.0.0.1:${ports[1]} SLUICE_HTTP=${http[1]}
}

# Empties the virtual host / of a broker that is running already.
empty_broker() {
    local ask=(curl --silent --show-error --fail --user guest:guest --header content-type:application/json)
    "${ask[@]}" --request DELETE "http://$SLUICE_HTTP/api/vhosts/%2F" &&
        "${ask[@]}" --request PUT "http://$SLUICE_HTTP/api/vhosts/%2F" &&
        "${ask[@]}" --request PUT --data '{"configure": ".*", "write": ".*", "read": ".*"}' \
            "http://$SLUICE_HTTP/api/permissions/%2F/guest"
}

# Starts an OpenID provider with a certificate of the same authority.
start_provider() {
    local out=$SLUICE_TLS/provider
    touch "$out"
    node "$cache/oidc/provider.js" >"$out" 2>"$out.log" </dev/null &
    provider_pid=$!
    for _ in $(seq 300); do
        grep -q . "$out" && break
        kill -0 "$provider_pid" 2>/dev/null || break
        sleep 0.1
    done
    SLUICE_ISSUER=$(<"$out") && export SLUICE_ISSUER
    [ -n "$SLUICE_ISSUER" ] || { say "the provider did not start:"; tail -n 20 "$out.log"; return 1; }
}

stop_provider() {
    [ -n "${provider_pid:-}" ] || return 0
    kill "$provider_pid" 2>/dev/null
    wait "$provider_pid" 2>/dev/null
    provider_pid=
    unset SLUICE_ISSUER
}

# Makes an authority, and certificates of the broker and of the user guest.
make_certificates() {
    local new=(-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes)
    certificates=$(mktemp -d) && export SLUICE_TLS=$certificates && cd "$certificates" || return
    openssl req -x509 "${new[@]}" -days 30 -subj "/CN=authority" -keyout ca.key -out ca.pem \
        -addext basicConstraints=critical,CA:TRUE
    for name in server client; do
        local subject=/CN=localhost; [ "$name" = server ] || subject=/CN=guest
        openssl req "${new[@]}" -subj "$subject" -keyout "$name.key" -out "$name.csr"
        openssl x509 -req -in "$name.csr" -CA ca.pem -CAkey ca.key -CAcreateserial -days 30 -out "$name.pem" \
            -extfile <(echo subjectAltName=DNS:localhost,IP:127.0.0.1)
    done
    cd "$root"
}

# Stops the broker. Succeeds if all its processes were still alive.
stop_broker() {
    [ -n "${dir:-}" ] || return 0
    local alive=0 pid log
    for pid in "${broker_pids[@]}"; do
        kill -9 "$pid" 2>/dev/null || alive=1
        wait "$pid" 2>/dev/null
    done
    for pid in "${pipe_pids[@]}"; do kill "$pid" 2>/dev/null; wait "$pid" 2>/dev/null; done
    if [ "$1" != 0 ] || [ "$alive" != 0 ]; then
        for log in "$dir"/?/log; do say "--- last lines of the broker's log"; tail -n "${SLUICE_LOG_LINES:-20}" "$log"; done
    fi
    rm -rf "$dir"
    dir=
    return "$alive"
}
trap 'stop_broker 0; stop_provider; rm -rf "${certificates:-}"' EXIT
trap 'exit 130' INT TERM

# --- the suites: what each needs, how it is installed, how it runs -----------------------------------------------------

needs_proton() { has python3; }
install_proton() { pip_install proton; }
run_proton() { python_run proton; }

needs_rabbitmq-python() { has python3; }
install_rabbitmq-python() { pip_install rabbitmq-python; }
run_rabbitmq-python() { python_run rabbitmq-python; }

needs_pika() { has python3; }
install_pika() { pip_install pika; }
run_pika() { python_run pika; }

needs_celery() { has python3; }
install_celery() { pip_install celery; }
run_celery() { python_run celery; }

needs_crossing() { has python3; }
install_crossing() { pip_install crossing; }
run_crossing() { python_run crossing; }

needs_aio-pika() { has python3; }
install_aio-pika() { pip_install aio-pika; }
run_aio-pika() { python_run aio-pika; }

needs_amqplib() { has node npm; }
install_amqplib() { npm_install amqplib; }
run_amqplib() { node "$cache/amqplib/suite.js"; }

needs_go-amqp() { has go; }
install_go-amqp() { go_build go-amqp; }
run_go-amqp() { "$cache/go-amqp"; }

needs_amqp091-go() { has go; }
install_amqp091-go() { go_build amqp091-go; }
run_amqp091-go() { "$cache/amqp091-go"; }

needs_rabbit-hole() { has go; }
install_rabbit-hole() { go_build rabbit-hole; }
run_rabbit-hole() { "$cache/rabbit-hole"; }

needs_rabbitmq-http-client() { has cargo; }
install_rabbitmq-http-client() { rust_build; }
run_rabbitmq-http-client() { "$cache/rust/debug/suite-rabbitmq-http-client"; }

needs_rabbitmqadmin() { has cargo python3; }
install_rabbitmqadmin() {
    env -u CARGO_BUILD_TARGET -u RUSTFLAGS CARGO_PROFILE_DEV_DEBUG=0 \
        cargo install --quiet --locked --debug --version "$rabbitmqadmin_version" --root "$cache/rabbitmqadmin" \
        --target-dir "$cache/rust" rabbitmqadmin
}
run_rabbitmqadmin() {
    PYTHONPATH=$here python3 "$here/rabbitmqadmin/suite.py" "$cache/rabbitmqadmin/bin/rabbitmqadmin"
}

needs_terraform() {
    has terraform && { [ -x "${TERRAFORM_PROVIDER:-}" ] || { missing=TERRAFORM_PROVIDER; return 1; }; }
}
install_terraform() { :; }
run_terraform() { "$here/terraform/suite.sh" "$TERRAFORM_PROVIDER"; }

needs_rabbitmq-go() { has go; }
install_rabbitmq-go() { go_build rabbitmq-go; }
run_rabbitmq-go() { "$cache/rabbitmq-go"; }

needs_rhea() { has node npm; }
install_rhea() { npm_install rhea; }
run_rhea() { node "$cache/rhea/suite.js"; }

needs_jms() { has java javac mvn; }
install_jms() { maven_fetch jms && java_compile jms; }
run_jms() {
    openssl pkcs12 -export -in "$SLUICE_TLS/client.pem" -inkey "$SLUICE_TLS/client.key" -passout pass:secret \
        -out "$SLUICE_TLS/client.p12" &&
        { [ -e "$SLUICE_TLS/trust.p12" ] || keytool -importcert -noprompt -alias authority -file "$SLUICE_TLS/ca.pem" \
            -keystore "$SLUICE_TLS/trust.p12" -storetype PKCS12 -storepass secret 2>/dev/null; } &&
        java "${jvm[@]}" -cp "$cache/jms/lib/*:$cache/jms/classes" Suite
}

needs_rabbitmq-java() { has java javac mvn; }
install_rabbitmq-java() { maven_fetch rabbitmq-java && java_compile rabbitmq-java; }
run_rabbitmq-java() { java "${jvm[@]}" -cp "$cache/rabbitmq-java/lib/*:$cache/rabbitmq-java/classes" Suite; }

needs_amqp-java() { has java javac mvn; }
install_amqp-java() { maven_fetch amqp-java && java_compile amqp-java; }
run_amqp-java() { java "${jvm[@]}" -cp "$cache/amqp-java/lib/*:$cache/amqp-java/classes" Suite; }

needs_spring-amqp() { has java javac mvn; }
install_spring-amqp() { maven_fetch spring-amqp && java_compile spring-amqp; }
run_spring-amqp() { java "${jvm[@]}" -cp "$cache/spring-amqp/lib/*:$cache/spring-amqp/classes" Suite; }

needs_perftest() { has java mvn; }
install_perftest() { maven_fetch perftest; }
run_perftest() { "$here/perftest/suite.sh" "$cache/perftest/lib"; }

needs_rabbitmq-c() { has cc && { [ -e /usr/include/amqp.h ] || { missing=librabbitmq-dev; return 1; }; }; }
install_rabbitmq-c() { cc -std=gnu11 -Wall -Wextra -O1 -o "$cache/rabbitmq-c" "$here/rabbitmq-c/suite.c" -lrabbitmq; }
run_rabbitmq-c() { "$cache/rabbitmq-c"; }

needs_bunny() { has ruby && { ruby -e 'require "bunny"' 2>/dev/null || { missing=ruby-bunny; return 1; }; }; }
install_bunny() { :; }
run_bunny() { ruby "$here/bunny/suite.rb"; }

needs_php-amqplib() {
    has php && { [ -e /usr/share/php/PhpAmqpLib/autoload.php ] || { missing=php-amqplib; return 1; }; }
}
install_php-amqplib() { :; }
run_php-amqplib() { php "$here/php-amqplib/suite.php"; }

needs_fe2o3() { has cargo; }
install_fe2o3() { rust_build; }
run_fe2o3() { "$cache/rust/debug/suite-fe2o3"; }

needs_lapin() { has cargo; }
install_lapin() { rust_build; }
run_lapin() { "$cache/rust/debug/suite-lapin"; }

needs_tokens() { has node npm; }
install_tokens() {
    local name
    npm_install oidc || return
    for name in "${with_tokens[@]}"; do
        "needs_$name" && { install "$name" || return; }
    done
    return 0
}
run_tokens() {
    local name status=0 running=()
    for name in "${with_tokens[@]}"; do
        "needs_$name" || { say "$name: skipped, $missing is not installed"; continue; }
        "run_$name" >"$dir/$name" 2>&1 </dev/null & running+=("$name:$!")
    done
    for name in "${running[@]}"; do
        wait "${name#*:}" || status=1
        cat "$dir/${name%:*}"
    done
    return "$status"
}

# Runs the programs that the documents show for a client.
snippets() {
    grep -qrsF "<!-- test: tests/interop $1 -->" "$root/README.md" "$root/docs" || return 0
    has python3 || { say "$1: the programs of the documents are skipped, $missing is not installed"; [ "${CI:-}" != true ]; return; }
    PYTHONPATH=$here PYTHONDONTWRITEBYTECODE=1 python3 "$here/snippets.py" "$1" "$cache"
}

# --- the run --------------------------------------------------------------------------------------------------------

has() { local tool; for tool in "$@"; do command -v "$tool" >/dev/null || { missing=$tool; return 1; }; done; }

# Installs what a suite needs, once in a run.
install() {
    [ -n "${installed[$1]:-}" ] || { "install_$1" && installed[$1]=yes; }
}

# One environment has pip, which takes seconds, and installs into the others.
pip_install() {
    [ -x "$cache/python/bin/pip" ] || python3 -m venv "$cache/python" || return
    [ -x "$cache/$1/bin/python" ] || python3 -m venv --without-pip "$cache/$1" || return
    once "$1/requirements.txt" "$cache/python/bin/pip" --python "$cache/$1/bin/python" install --quiet \
        --disable-pip-version-check --no-compile --cache-dir "$cache/pip" -r "$here/$1/requirements.txt"
}
python_run() { PYTHONPATH=$here "$cache/$1/bin/python" "$here/$1/suite.py"; }

# Node looks for modules beside the script, so copies of the scripts run beside them.
npm_install() {
    mkdir -p "$cache/$1" && cp "$here/$1"/*.{js,json} "$cache/$1" &&
        once "$1/package-lock.json" npm ci --silent --no-audit --no-fund --cache "$cache/npm" --prefix "$cache/$1"
}

go_build() {
    (cd "$here/$1" && GOPATH=$cache/go GOMODCACHE=$cache/go/mod GOCACHE=$cache/go/build GOFLAGS=-modcacherw \
        go build -o "$cache/$1" .)
}

# Builds the suites in Rust. All at once, so that what they share is compiled once, with the features that both need. The
# variables of a caller who builds the broker without shared libraries are not for a suite. Without what debuggers need, it
# takes a seventh less time.
rust_build() {
    env -u CARGO_BUILD_TARGET -u RUSTFLAGS CARGO_PROFILE_DEV_DEBUG=0 \
        cargo build --quiet --locked --manifest-path "$here/Cargo.toml" --target-dir "$cache/rust" --workspace
}

maven_fetch() {
    MAVEN_OPTS=${jvm[*]} once "$1/pom.xml" mvn --batch-mode --quiet -Dstyle.color=never -Dmaven.repo.local="$cache/m2" -f "$here/$1/pom.xml" \
        dependency:copy-dependencies -DoutputDirectory="$cache/$1/lib"
}

# Compiles the sources of a suite, and further ones.
java_compile() {
    local name=$1; shift
    javac "${jvm[@]/#/-J}" -Xlint:all,-try,-classfile -cp "$cache/$name/lib/*" -d "$cache/$name/classes" "$here/$name"/*.java "$@"
}

# Runs a command, unless it has already been run with the same content of a lock file.
once() {
    local lock=$here/$1 stamp=$cache/stamps/$1; shift
    mkdir -p "$(dirname "$stamp")"
    cmp -s "$lock" "$stamp" && return
    "$@" && cp "$lock" "$stamp"
}

# Runs a suite. Returns 0 if it passed, 1 if it failed, 2 if it was skipped. Notes how many seconds each part took.
suite() {
    local name=$1 status alive began=$SECONDS
    say "=== $name"
    "needs_$name" || { say "$name: skipped, $missing is not installed"; [ "${CI:-}" = true ] && return 1; return 2; }
    if [ -z "$installed_before" ]; then
        install "$name" || { say "$name: could not be installed"; return 1; }
        took+=("$(printf '%-16s %4d s  installing' "$name" $((SECONDS - began)))")
    fi
    [ -z "$install_only" ] || return 0
    local types=(classic quorum) settings=()
    [ -n "$both" ] || [ -z "${type_of[$name]:-}" ] || types=("${type_of[$name]}")
    case $name in
        rabbitmq-python|rabbitmq-go|rabbitmq-java) types=(classic);;
        # While it records, the suite itself tries both types.
        rabbitmqadmin) [ -z "$SLUICE_RECORD" ] || types=(classic);;
        tokens)
            types=(classic)
            start_provider || return 1
            settings=(--set auth_backends.1=oauth2 --set auth_backends.2=internal
                --set auth_oauth2.resource_server_id=rabbitmq --set "auth_oauth2.issuer=$SLUICE_ISSUER"
                --set "auth_oauth2.https.cacertfile=$SLUICE_TLS/ca.pem");;
    esac
    for SLUICE_QUEUE_TYPE in "${types[@]}"; do
        export SLUICE_QUEUE_TYPE
        say "--- $SLUICE_QUEUE_TYPE queues"
        began=$SECONDS
        if [ -n "$SLUICE_AGAINST" ]; then
            empty_broker && "run_$name" || return 1
            continue
        fi
        start_broker "${settings[@]}" || return 1
        "run_$name" && { [ "$SLUICE_QUEUE_TYPE" != "${types[0]}" ] || [ -n "$nodes" ] || snippets "$name"; }; status=$?
        stop_broker "$status"; alive=$?
        took+=("$(printf '%-16s %4d s  %s queues' "$name" $((SECONDS - began)) "$SLUICE_QUEUE_TYPE")")
        [ "$alive" = 0 ] || say "$name: the broker died"
        [ "$status" = 0 ] && [ "$alive" = 0 ] || return 1
    done
}

install_only= installed_before= both= nodes=
export SLUICE_AGAINST= SLUICE_RECORD=
while true; do
    case ${1:-} in
        --install) install_only=yes;;
        --installed) installed_before=yes;;
        --both) both=yes;;
        --nodes) nodes=yes;;
        --record) SLUICE_RECORD=yes;;
        --against) SLUICE_AGAINST=${2:?the name of a broker}; shift;;
        *) break;;
    esac
    shift
done
names=(); [ $# -gt 0 ] || names=("${amqp10[@]}" "${amqp091[@]}" "${management[@]}")
for name; do
    case $name in
        amqp10) names+=("${amqp10[@]}");;
        amqp091) names+=("${amqp091[@]}");;
        management) names+=("${management[@]}");;
        management-more) names+=("${management_more[@]}");;
        amqp091-more) names+=("${amqp091_more[@]}");;
        *) names+=("$name");;
    esac
done
for name in "${names[@]}"; do
    declare -F "run_$name" >/dev/null || { say "unknown suite $name; there are: ${amqp10[*]} ${amqp091[*]} ${management[*]} ${amqp091_more[*]} ${management_more[*]}"; exit 2; }
    [ -z "$SLUICE_AGAINST" ] || [ "$name" != tokens ] || { say "tokens needs a broker of its own"; exit 2; }
done
if [ -n "$SLUICE_AGAINST" ]; then
    : "${SLUICE_AMQP:?host:port of the broker}" "${SLUICE_HTTP:?host:port of its management API}"
elif [ -z "$install_only" ]; then
    find_broker && make_certificates >/dev/null 2>&1 || { say "no certificates: is openssl installed?"; exit 2; }
fi
mkdir -p "$cache"
declare -A installed=()
failed=() skipped=() took=()
for name in "${names[@]}"; do
    suite "$name"; status=$?
    stop_provider
    case $status in 0) ;; 2) skipped+=("$name");; *) failed+=("$name");; esac
done
say "--- seconds"
printf "%s\n" "${took[@]}"
[ ${#skipped[@]} = 0 ] || say "skipped: ${skipped[*]}"
[ ${#failed[@]} = 0 ] || { say "failed: ${failed[*]}"; exit 1; }
