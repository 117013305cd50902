// What programs with rabbit-hole do, the usual client of RabbitMQ's management API in Go.
package main

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"reflect"
	"runtime/debug"
	"slices"
	"time"

	rabbithole "github.com/michaelklishin/rabbit-hole/v2"
	amqp "github.com/rabbitmq/amqp091-go"
)

const patience = 30 * time.Second // a guard against hanging, not a measure

var queueType = os.Getenv("SLUICE_QUEUE_TYPE")

// against names the broker if it is not Sluice. RabbitMQ needs plugins for some of what is tried here.
var against = os.Getenv("SLUICE_AGAINST")

var admin = must(rabbithole.NewClient("http://"+os.Getenv("SLUICE_HTTP"), "guest", "guest"))

var checks = []struct {
	name string
	run  func()
}{
	{"who_and_what_is_there", whoAndWhat},
	{"a_wrong_login_is_refused", aWrongLogin},
	{"exchanges_queues_and_bindings", exchangesQueuesAndBindings},
	{"lists_are_paged_and_filtered", listsArePaged},
	{"a_queue_counts_and_is_purged", aQueueCounts},
	{"policies_of_users_and_operators", policies},
	{"virtual_hosts_users_and_permissions", virtualHostsAndUsers},
	{"limits", limits},
	{"parameters", parameters},
	{"definitions_go_out_and_in", definitions},
	{"connections_channels_and_consumers", connections},
	{"health_checks", healthChecks},
	{"what_is_missing_is_an_error_with_a_reason", whatIsMissing},
}

func whoAndWhat() {
	who := must(admin.Whoami())
	expect(who.Name, "guest")
	expect(slices.Contains(who.Tags, "administrator"), true)
	overview := must(admin.Overview())
	expect(overview.RabbitMQVersion, "4.3.6")
	expect(overview.Node != "", true)
	types := map[string]bool{}
	for _, exchange := range overview.ExchangeTypes {
		types[exchange.Name] = exchange.Enabled
	}
	expect(types["topic"] && types["headers"], true)
	node := must(admin.GetNode(overview.Node))
	expect(node.IsRunning && node.MemUsed > 0 && node.MemLimit > node.MemUsed && !node.DiskFreeAlarm, true)
	expect(len(must(admin.ListNodes())), 1)
	expect(must(admin.GetClusterName()).Name != "", true)
	expect(slices.Contains(must(admin.EnabledProtocols()), "amqp"), true)
	expect(len(must(admin.ListFeatureFlags())) > 0, true)
	status(204)(admin.EnableFeatureFlag("stream_queue"))
	if against == "" {
		expect(len(must(admin.ListFederationLinks()))+len(must(admin.ListShovels())), 0)
	}
}

func aWrongLogin() {
	client := must(rabbithole.NewClient("http://"+os.Getenv("SLUICE_HTTP"), "guest", "wrong"))
	_, err := client.Overview()
	refused(err, 401)
}

func declare(name string, arguments map[string]any) {
	settings := rabbithole.QueueSettings{Type: queueType, Durable: true, Arguments: arguments}
	status(201)(admin.DeclareQueue("/", name, settings))
}

func exchangesQueuesAndBindings() {
	topic := rabbithole.ExchangeSettings{Type: "topic", Durable: true}
	status(201)(admin.DeclareExchange("/", "shop", topic))
	status(201)(admin.DeclareExchange("/", "billing", rabbithole.ExchangeSettings{Type: "headers", Durable: true}))
	status(204)(admin.DeclareExchange("/", "shop", topic))
	declare("a b/ä", map[string]any{"x-max-length": 7})
	queue := must(admin.GetQueue("/", "a b/ä"))
	expect([]any{queue.Name, queue.Type, queue.Durable, queue.Status}, []any{"a b/ä", queueType, true, "running"})
	expect(queue.Arguments["x-max-length"], any(float64(7)))

	to := rabbithole.BindingInfo{Source: "shop", Destination: "a b/ä", DestinationType: "queue", RoutingKey: "new.*"}
	status(201)(admin.DeclareBinding("/", to))
	between := rabbithole.BindingInfo{Source: "shop", Destination: "billing", DestinationType: "exchange",
		RoutingKey: "paid", Arguments: map[string]any{"x-match": "any", "country": "DE"}}
	status(201)(admin.DeclareBinding("/", between))
	keys := func(bindings []rabbithole.BindingInfo, err error) (keys []string) {
		for _, binding := range must(bindings, err) {
			keys = append(keys, binding.Source+" "+binding.RoutingKey)
		}
		slices.Sort(keys)
		return keys
	}
	expect(keys(admin.ListQueueBindings("/", "a b/ä")), []string{" a b/ä", "shop new.*"})
	expect(keys(admin.ListExchangeBindingsWithSource("/", "shop")), []string{"shop new.*", "shop paid"})
	expect(keys(admin.ListExchangeBindingsWithDestination("/", "billing")), []string{"shop paid"})
	expect(keys(admin.ListQueueBindingsBetween("/", "shop", "a b/ä")), []string{"shop new.*"})
	found := must(admin.ListExchangeBindingsBetween("/", "shop", "billing"))
	expect(found[0].Arguments, map[string]any{"x-match": "any", "country": "DE"})
	status(204)(admin.DeleteBinding("/", found[0]))
	to.PropertiesKey = "new.*"
	status(204)(admin.DeleteBinding("/", to))
	expect(keys(admin.ListExchangeBindingsWithSource("/", "shop")), nil)
	expect(must(admin.GetExchange("/", "shop")).Type, "topic")
	status(204)(admin.DeleteExchange("/", "shop"))
	status(204)(admin.DeleteExchange("/", "billing"))
	status(204)(admin.DeleteQueue("/", "a b/ä", rabbithole.QueueDeleteOptions{IfEmpty: true, IfUnused: true}))
}

func listsArePaged() {
	for i := range 5 {
		declare(fmt.Sprintf("page.%d", i), nil)
	}
	page := must(admin.PagedListQueuesWithParametersIn("/", url.Values{
		"page": {"2"}, "page_size": {"2"}, "name": {"^page\\."}, "use_regex": {"true"}, "sort": {"name"}, "sort_reverse": {"true"}}))
	expect([]int{page.Page, page.PageCount, page.FilteredCount, page.ItemCount}, []int{2, 3, 5, 2})
	expect([]string{page.Items[0].Name, page.Items[1].Name}, []string{"page.2", "page.1"})
	short := must(admin.ListQueuesWithParameters(url.Values{"columns": {"name,vhost"}}))
	expect(short[0].Vhost == "/" && short[0].Type == "", true)
	for i := range 5 {
		status(204)(admin.DeleteQueue("/", fmt.Sprintf("page.%d", i)))
	}
}

func aQueueCounts() {
	declare("counted", nil)
	connection := must(amqp.Dial("amqp://guest:guest@" + os.Getenv("SLUICE_AMQP")))
	defer connection.Close()
	channel := must(connection.Channel())
	check(channel.Confirm(false))
	publish := func() {
		confirm := must(channel.PublishWithDeferredConfirm("", "counted", true, false, amqp.Publishing{Body: []byte("12345")}))
		expect(confirm.Wait(), true)
	}
	for range 3 {
		publish()
	}
	// RabbitMQ shows statistics some seconds later.
	until("a count", func() bool { return must(admin.GetQueue("/", "counted")).Messages == 3 })
	queue := must(admin.GetQueue("/", "counted"))
	expect([]int{queue.Messages, queue.MessagesReady, queue.MessagesUnacknowledged}, []int{3, 3, 0})
	expect([]int64{queue.MessageStats.Publish, queue.MessageStats.DeliverGet}, []int64{3, 0})
	samples := must(admin.GetQueueWithParameters("/", "counted", url.Values{"lengths_age": {"60"}, "lengths_incr": {"5"}}))
	expect(samples.Messages, 3)
	until("a rate of the node", func() bool {
		publish()
		return must(admin.Overview()).MessageStats.PublishDetails.Rate > 0
	})
	status(204)(admin.PurgeQueue("/", "counted"))
	until("an empty queue", func() bool { return must(admin.GetQueue("/", "counted")).Messages == 0 })
	status(204)(admin.DeleteQueue("/", "counted"))
}

func policies() {
	policy := rabbithole.Policy{Pattern: "^p$", ApplyTo: "queues", Priority: 3, Definition: rabbithole.PolicyDefinition{"max-length": 5}}
	status(201)(admin.PutPolicy("/", "short", policy))
	operator := rabbithole.OperatorPolicy{Pattern: "^p$", ApplyTo: "queues", Definition: rabbithole.PolicyDefinition{"max-length": 3}}
	status(201)(admin.PutOperatorPolicy("/", "ceiling", operator))
	found := must(admin.GetPolicy("/", "short"))
	expect([]any{found.Name, found.Vhost, found.Priority, found.Definition["max-length"]}, []any{"short", "/", 3, float64(5)})
	declare("p", nil)
	until("a policy", func() bool { return must(admin.GetQueue("/", "p")).Policy == "short" })
	expect(len(must(admin.ListPoliciesIn("/")))+len(must(admin.ListOperatorPolicies())), 2)
	_, err := admin.PutPolicy("/", "bad", rabbithole.Policy{Pattern: ".*", Definition: rabbithole.PolicyDefinition{"no-such-key": 1}})
	refused(err, 400)
	status(204)(admin.DeletePolicy("/", "short"))
	status(204)(admin.DeleteOperatorPolicy("/", "ceiling"))
	status(204)(admin.DeleteQueue("/", "p"))
}

func virtualHostsAndUsers() {
	settings := rabbithole.VhostSettings{Description: "ours", Tags: rabbithole.VhostTags{"a", "b"}, DefaultQueueType: "quorum"}
	status(201)(admin.PutVhost("team/ä", settings))
	vhost := must(admin.GetVhost("team/ä"))
	expect([]any{vhost.Description, vhost.DefaultQueueType, len(vhost.Tags)}, []any{"ours", "quorum", 2})
	status(201)(admin.PutUser("ann", rabbithole.UserSettings{Name: "ann", Password: "secret", Tags: rabbithole.UserTags{"management"}}))
	status(201)(admin.UpdatePermissionsIn("team/ä", "ann", rabbithole.Permissions{Configure: "^x", Write: ".*", Read: ""}))
	expect(must(admin.GetPermissionsIn("team/ä", "ann")).Configure, "^x")
	status(201)(admin.UpdateTopicPermissionsIn("team/ä", "ann", rabbithole.TopicPermissions{Exchange: "amq.topic", Write: "^a", Read: ".*"}))
	expect(must(admin.GetTopicPermissionsIn("team/ä", "ann"))[0].Write, "^a")

	ann := must(rabbithole.NewClient("http://"+os.Getenv("SLUICE_HTTP"), "ann", "secret"))
	names := []string{}
	for _, vhost := range must(ann.ListVhosts()) {
		names = append(names, vhost.Name)
	}
	expect(names, []string{"team/ä"})
	_, err := ann.DeclareQueue("team/ä", "y", rabbithole.QueueSettings{Durable: true})
	refused(err, 401)
	status(201)(ann.DeclareQueue("team/ä", "x", rabbithole.QueueSettings{Durable: true}))
	expect(must(ann.GetQueue("team/ä", "x")).Type, "quorum")
	_, err = ann.ListUsers()
	refused(err, 401)

	status(204)(admin.ClearTopicPermissionsIn("team/ä", "ann"))
	status(204)(admin.ClearPermissionsIn("team/ä", "ann"))
	status(204)(admin.DeleteUser("ann"))
	_, err = ann.Whoami()
	refused(err, 401)
	status(204)(admin.DeleteVhost("team/ä"))
}

func limits() {
	status(204)(admin.PutVhostLimits("/", rabbithole.VhostLimitsValues{"max-queues": 100}))
	expect(must(admin.GetVhostLimits("/"))[0].Value["max-queues"], 100)
	status(204)(admin.DeleteVhostLimits("/", rabbithole.VhostLimits{"max-queues"}))
	status(204)(admin.PutUserLimits("guest", rabbithole.UserLimitsValues{"max-connections": 100}))
	expect(must(admin.GetUserLimits("guest"))[0].Value["max-connections"], 100)
	status(204)(admin.DeleteUserLimits("guest", rabbithole.UserLimits{"max-connections"}))
}

func parameters() {
	status(201)(admin.PutGlobalParameter("motto", map[string]any{"a": 1}))
	expect(must(admin.GetGlobalParameter("motto")).Value, any(map[string]any{"a": float64(1)}))
	status(204)(admin.DeleteGlobalParameter("motto"))
	if against != "" {
		return
	}
	status(201)(admin.PutFederationUpstream("/", "up", rabbithole.FederationDefinition{Uri: []string{"amqp://h"}}))
	expect(must(admin.GetFederationUpstream("/", "up")).Definition.Uri, rabbithole.URISet{"amqp://h"})
	expect(len(must(admin.ListRuntimeParametersFor("federation-upstream"))), 1)
	status(204)(admin.DeleteFederationUpstream("/", "up"))
}

func definitions() {
	declare("kept", nil)
	all := must(admin.ListDefinitions())
	names := []string{}
	for _, queue := range *all.Queues {
		names = append(names, queue.Name)
	}
	expect(names, []string{"kept"})
	expect(len(*all.Users) >= 1 && (*all.Users)[0].PasswordHash != "", true)
	status(204)(admin.DeleteQueue("/", "kept"))
	again := rabbithole.ExportedDefinitions{Queues: all.Queues, Exchanges: &[]rabbithole.ExchangeInfo{},
		Bindings: &[]rabbithole.BindingInfo{}, Policies: &[]rabbithole.PolicyDefinition{}}
	status(204)(admin.UploadDefinitions(&again))
	expect(must(admin.GetQueue("/", "kept")).Type, queueType)
	expect(len(*must(admin.ListVhostDefinitions("/")).Queues), 1)
	status(204)(admin.DeleteQueue("/", "kept"))
}

func connections() {
	declare("watched", nil)
	connection := must(amqp.DialConfig("amqp://guest:guest@"+os.Getenv("SLUICE_AMQP"), amqp.Config{
		Properties: amqp.Table{"connection_name": "a program", "product": "check"}}))
	closed := connection.NotifyClose(make(chan *amqp.Error, 1))
	channel := must(connection.Channel())
	check(channel.Qos(7, 0, false))
	must(channel.Consume("watched", "tag", false, false, false, false, nil))
	until("a connection", func() bool { return len(must(admin.ListConnections())) == 1 })
	all := must(admin.ListConnections())
	until("a channel with its consumer", func() bool {
		channels := must(admin.ListChannels())
		return len(channels) == 1 && channels[0].ConsumerCount == 1
	})
	found := must(admin.GetConnection(all[0].Name))
	expect([]any{found.User, found.Vhost, found.Channels, found.ClientProperties["connection_name"]}, []any{"guest", "/", 1, any("a program")})
	channels := must(admin.ListChannels())
	expect([]int{len(channels), channels[0].ConsumerCount, channels[0].PrefetchCount}, []int{1, 1, 7})
	expect(must(admin.GetChannel(channels[0].Name)).Number, 1)
	consumers := must(admin.ListConsumersIn("/"))
	expect([]any{consumers[0].ConsumerTag, consumers[0].Queue.Name, consumers[0].PrefetchCount}, []any{"tag", "watched", 7})
	expect(len(must(admin.ListConnectionsOfUser("guest")))+len(must(admin.ListVhostConnections("/"))), 2)
	status(204)(admin.CloseConnection(found.Name))
	select {
	case reason := <-closed:
		expect(reason.Code, amqp.ConnectionForced)
	case <-time.After(patience):
		panic("the connection is still open")
	}
	status(204)(admin.DeleteQueue("/", "watched"))
}

func healthChecks() {
	ok := func(name string, ok bool, err error) {
		check(err)
		expect(name+fmt.Sprint(ok), name+"true")
	}
	alarms, err := admin.HealthCheckAlarms()
	ok("alarms", alarms.Ok(), err)
	local, err := admin.HealthCheckLocalAlarms()
	ok("local alarms", local.Ok(), err)
	certificates, err := admin.HealthCheckCertificateExpiration(1, rabbithole.DAYS)
	ok("certificates", certificates.Ok(), err)
	protocol, err := admin.HealthCheckProtocolListener(rabbithole.AMQP091)
	ok("protocol", protocol.Ok(), err)
	vhosts, err := admin.HealthCheckVirtualHosts()
	ok("virtual hosts", vhosts.Ok(), err)
	critical, err := admin.HealthCheckNodeIsQuorumCritical()
	ok("quorum", critical.Ok(), err)
	port, err := admin.HealthCheckPortListener(1)
	check(err)
	expect([]any{port.Ok(), port.Reason}, []any{false, "No active listener"})
}

func whatIsMissing() {
	_, err := admin.GetQueue("/", "absent")
	refused(err, 404)
	_, err = admin.GetExchange("absent", "x")
	refused(err, 404)
	_, err = admin.GetConnection("absent")
	refused(err, 404)
	_, err = admin.DeclareQueue("/", "odd", rabbithole.QueueSettings{Durable: true, Arguments: map[string]any{"x-max-length": "many"}})
	refused(err, 400)
	_, err = admin.EnableFeatureFlag("absent")
	refused(err, 400)
}

// refused expects an answer with this status and a reason. The client drops the reason of a 401.
func refused(err error, status int) {
	if status == http.StatusUnauthorized {
		expect(fmt.Sprint(err), "Error: API responded with a 401 Unauthorized")
		return
	}
	var answer rabbithole.ErrorResponse
	if !errors.As(err, &answer) {
		panic(fmt.Errorf("found %T %v, wanted an answer with %d", err, err, status))
	}
	expect(answer.StatusCode, status)
	expect(answer.Reason != "", true)
}

// status expects that a request that changes something has this status.
func status(wanted int) func(*http.Response, error) {
	return func(response *http.Response, err error) {
		check(err)
		expect(response.StatusCode, wanted)
	}
}

func until(what string, test func() bool) {
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		if test() {
			return
		}
	}
	panic(what + ": not in time")
}

func must[T any](value T, err error) T {
	check(err)
	return value
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}

func expect[T any](found, wanted T) {
	if !reflect.DeepEqual(found, wanted) {
		panic(fmt.Errorf("found %v, wanted %v", found, wanted))
	}
}

func passes(name string, run func()) (ok bool) {
	defer func() {
		if problem := recover(); problem != nil {
			fmt.Printf("FAIL %s: %v\n%s\n", name, problem, debug.Stack())
			ok = false
		}
	}()
	run()
	fmt.Println("ok  ", name)
	return true
}

// Runs every check, or those named on the command line.
func main() {
	passed, failed := 0, 0
	for _, check := range checks {
		if len(os.Args) > 1 && !slices.Contains(os.Args[1:], check.name) {
			continue
		}
		if passes(check.name, check.run) {
			passed++
		} else {
			failed++
		}
	}
	fmt.Printf("rabbit-hole: %d passed, %d failed\n", passed, failed)
	if failed > 0 {
		os.Exit(1)
	}
}
