#!/usr/bin/env bash
# Describes a virtual host with Terraform: creates it, finds it unchanged, changes it, imports what is there, and deletes it.
#
#   tests/interop/terraform/suite.sh PROVIDER    the program terraform-provider-rabbitmq, built from its sources
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
provider=$(realpath "$1")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cp "$here/main.tf" "$folder" && ln -s "$provider" "$folder/terraform-provider-rabbitmq" && cd "$folder" || exit
cat >terraform.rc <<END
provider_installation {
  dev_overrides { "cyrilgdn/rabbitmq" = "$folder" }
  direct {}
}
END
# Nothing asks the world outside whether there is a newer version.
export TF_CLI_CONFIG_FILE=$folder/terraform.rc CHECKPOINT_DISABLE=1 TF_IN_AUTOMATION=1
export TF_VAR_endpoint=http://$SLUICE_HTTP TF_VAR_queue_type=$SLUICE_QUEUE_TYPE
passed=0 failed=0

# check NAME COMMAND...
check() {
    local name=$1; shift
    if "$@" >out 2>&1 </dev/null; then
        echo "ok   $name"; passed=$((passed + 1))
    else
        echo "FAIL $name"; cat out; failed=$((failed + 1))
    fi
}
unchanged() { terraform plan -no-color -detailed-exitcode "$@"; }
# Forgets a resource, and finds it again by its name.
import() { terraform state rm "$1" && terraform import -no-color "$1" "$2"; }

check everything_is_created terraform apply -no-color -auto-approve
check what_was_created_is_as_described unchanged
check a_policy_is_changed terraform apply -no-color -auto-approve -var policy_max=6
check the_change_is_there unchanged -var policy_max=6
check a_queue_is_imported import rabbitmq_queue.plain plain@tf-team
check a_virtual_host_is_imported import rabbitmq_vhost.team tf-team
check an_exchange_is_imported import rabbitmq_exchange.shop shop@tf-team
check a_binding_is_imported import rabbitmq_binding.to_queue 'tf-team/shop/plain/queue/new.%2A'
check everything_is_deleted terraform destroy -no-color -auto-approve -var policy_max=6
echo "terraform: $passed passed, $failed failed"
[ "$failed" = 0 ]
