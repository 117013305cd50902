# What people describe with the Terraform provider of RabbitMQ: all kinds of resources that have a meaning without plugins.
terraform {
  required_providers {
    rabbitmq = { source = "cyrilgdn/rabbitmq" }
  }
}
variable "endpoint" {}
variable "queue_type" {}
variable "policy_max" { default = 5 }
provider "rabbitmq" {
  endpoint = var.endpoint
  username = "guest"
  password = "guest"
}
resource "rabbitmq_vhost" "team" {
  name = "tf-team"
  description = "ours"
  default_queue_type = "quorum"
  max_connections = "100"
  max_queues = "50"
}
resource "rabbitmq_user" "ann" {
  name = "tf-ann"
  password = "secret"
  tags = ["management", "policymaker"]
}
resource "rabbitmq_permissions" "ann" {
  user = rabbitmq_user.ann.name
  vhost = rabbitmq_vhost.team.name
  permissions {
    configure = "^a"
    write = ".*"
    read = ".*"
  }
}
resource "rabbitmq_topic_permissions" "ann" {
  user = rabbitmq_user.ann.name
  vhost = rabbitmq_vhost.team.name
  permissions {
    exchange = "amq.topic"
    write = "^a"
    read = ".*"
  }
}
resource "rabbitmq_permissions" "guest" {
  user = "guest"
  vhost = rabbitmq_vhost.team.name
  permissions {
    configure = ".*"
    write = ".*"
    read = ".*"
  }
}
resource "rabbitmq_exchange" "shop" {
  name = "shop"
  vhost = rabbitmq_permissions.guest.vhost
  settings {
    type = "topic"
    durable = true
    auto_delete = false
    arguments = { "alternate-exchange" = "amq.fanout" }
  }
}
resource "rabbitmq_exchange" "audit" {
  name = "audit"
  vhost = rabbitmq_permissions.guest.vhost
  settings {
    type = "headers"
    durable = true
  }
}
resource "rabbitmq_queue" "plain" {
  name = "plain"
  vhost = rabbitmq_permissions.guest.vhost
  settings {
    durable = true
    auto_delete = false
    arguments = { "x-queue-type" = var.queue_type }
  }
}
resource "rabbitmq_queue" "typed" {
  name = "typed"
  vhost = rabbitmq_permissions.guest.vhost
  settings {
    durable = true
    arguments_json = jsonencode({ "x-queue-type" = "classic", "x-max-length" = 7, "x-overflow" = "reject-publish" })
  }
}
resource "rabbitmq_queue" "stream" {
  name = "stream"
  vhost = rabbitmq_permissions.guest.vhost
  settings {
    durable = true
    arguments = { "x-queue-type" = "stream" }
  }
}
resource "rabbitmq_binding" "to_queue" {
  source = rabbitmq_exchange.shop.name
  vhost = rabbitmq_vhost.team.name
  destination = rabbitmq_queue.plain.name
  destination_type = "queue"
  routing_key = "new.*"
}
resource "rabbitmq_binding" "to_exchange" {
  source = rabbitmq_exchange.shop.name
  vhost = rabbitmq_vhost.team.name
  destination = rabbitmq_exchange.audit.name
  destination_type = "exchange"
  routing_key = "#"
  arguments = { "a" = "b" }
}
resource "rabbitmq_policy" "short" {
  name = "short"
  vhost = rabbitmq_permissions.guest.vhost
  policy {
    pattern = "^p"
    priority = 3
    apply_to = "queues"
    definition = { "max-length" = var.policy_max, "dead-letter-exchange" = "amq.fanout" }
  }
}
resource "rabbitmq_operator_policy" "ceiling" {
  name = "ceiling"
  vhost = rabbitmq_permissions.guest.vhost
  policy {
    pattern = ".*"
    priority = 0
    apply_to = "queues"
    definition = { "max-length" = 1000 }
  }
}
data "rabbitmq_vhost" "default" { name = "/" }
data "rabbitmq_user" "guest" { name = "guest" }
data "rabbitmq_exchange" "topic" {
  name = "amq.topic"
  vhost = "/"
}
