package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"

	rmq "github.com/rabbitmq/rabbitmq-amqp-go-client/pkg/rabbitmqamqp"
)

// issuer is the URL of the OpenID provider. With it, the checks of tokens run instead of the others.
var issuer = os.Getenv("SLUICE_ISSUER")

var tokenChecks = []namedCheck{
	{"a_token_allows_what_its_scopes_say", tokenAllowsWhatItsScopesSay},
	{"a_token_for_others_is_refused", tokenForOthersIsRefused},
	{"an_expired_token_closes_the_connection_unless_it_was_renewed", expiredTokenClosesTheConnection},
}

const (
	allScopes    = "rabbitmq.configure:*/* rabbitmq.write:*/* rabbitmq.read:*/*"
	forUs        = "urn:interop:rabbitmq:3600"
	forUsBriefly = "urn:interop:rabbitmq:5" // seconds
	forOthers    = "urn:interop:other:3600"
)

func trusting() *tls.Config {
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(must(os.ReadFile(os.Getenv("SLUICE_TLS") + "/ca.pem")))
	// Without a name, the library would check the certificate for the name of the virtual host.
	return &tls.Config{RootCAs: roots, ServerName: "localhost"}
}

// token gets a token with the grant client_credentials.
func token(ctx context.Context, scope, resource string) string {
	form := url.Values{"grant_type": {"client_credentials"}, "scope": {scope}, "resource": {resource}}
	request := must(http.NewRequestWithContext(ctx, "POST", issuer+"/token", strings.NewReader(form.Encode())))
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	request.SetBasicAuth("interop", "secret")
	answer := must((&http.Client{Transport: &http.Transport{TLSClientConfig: trusting()}}).Do(request))
	defer answer.Body.Close()
	expect(answer.StatusCode, http.StatusOK)
	var found struct {
		AccessToken string `json:"access_token"`
	}
	check(json.NewDecoder(answer.Body).Decode(&found))
	return found.AccessToken
}

func login(ctx context.Context, token string) (*client, error) {
	environment := rmq.NewEnvironment("amqps://"+os.Getenv("SLUICE_AMQPS"), &rmq.AmqpConnOptions{
		TLSConfig:             trusting(),
		OAuth2Options:         &rmq.OAuth2Options{Token: token},
		RecoveryConfiguration: &rmq.RecoveryConfiguration{ActiveRecovery: false}})
	connection, err := environment.NewConnection(ctx)
	return &client{connection, ctx}, err
}

func tokenAllowsWhatItsScopesSay(ctx context.Context) {
	scopes := "rabbitmq.configure:*/rabbitmq-go.* rabbitmq.write:*/* rabbitmq.read:*/rabbitmq-go.*"
	c := must(login(ctx, token(ctx, scopes, forUs)))
	c.classic("rabbitmq-go.own", "a")
	expect(texts(c.takeFrom("rabbitmq-go.own", 1, nil)), "a")
	_, err := c.NewConsumer(ctx, "orders", nil)
	fails(err, "read access to queue 'orders' in vhost '/' refused for user 'interop'")
}

func tokenForOthersIsRefused(ctx context.Context) {
	_, err := login(ctx, token(ctx, allScopes, forOthers))
	if err == nil || ctx.Err() != nil {
		panic(fmt.Errorf("was not refused: %v", err))
	}
}

func expiredTokenClosesTheConnection(ctx context.Context) {
	renewed := must(login(ctx, token(ctx, allScopes, forUsBriefly)))
	expiring := must(login(ctx, token(ctx, allScopes, forUsBriefly)))
	changes := make(chan *rmq.StateChanged, 1)
	expiring.NotifyStatusChange(changes)
	check(renewed.RefreshToken(ctx, token(ctx, allScopes, forUs)))
	select {
	case change := <-changes:
		fails(change.To.(*rmq.StateClosed).GetError(), "credential expired")
	case <-ctx.Done():
		panic(ctx.Err())
	}
	// The first token of this connection has expired before that of the other.
	renewed.classic("rabbitmq-go.renewed", "a")
	renewed.close()
}
