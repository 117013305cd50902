package main

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"

	"github.com/Azure/go-amqp"
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

// token gets a token with the grant client_credentials.
func token(ctx context.Context, scope, resource string) string {
	form := url.Values{"grant_type": {"client_credentials"}, "scope": {scope}, "resource": {resource}}
	request := must(http.NewRequestWithContext(ctx, "POST", issuer+"/token", strings.NewReader(form.Encode())))
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	request.SetBasicAuth("interop", "secret")
	trusting := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: authority()}}}
	answer := must(trusting.Do(request))
	defer answer.Body.Close()
	expect(answer.StatusCode, http.StatusOK)
	var found struct {
		AccessToken string `json:"access_token"`
	}
	check(json.NewDecoder(answer.Body).Decode(&found))
	return found.AccessToken
}

// login connects with a token as the password. The name of the user is in the token.
func login(ctx context.Context, token string) *client {
	return overTLS(ctx, amqp.SASLTypePlain("anybody", token), "")
}

func tokenAllowsWhatItsScopesSay(ctx context.Context) {
	scopes := "rabbitmq.configure:*/go-amqp.* rabbitmq.write:*/* rabbitmq.read:*/go-amqp.*"
	c := login(ctx, token(ctx, scopes, forUs))
	c.onQueue("go-amqp.own", "a")
	expect(bodies(c.consumer("go-amqp.own").drain()), []string{"a"})
	_, err := c.session.NewReceiver(ctx, "/queues/orders", nil)
	ended(err, "read access to queue 'orders' in vhost '/' refused for user 'interop'")
	c.close()
}

func tokenForOthersIsRefused(ctx context.Context) {
	_, err := dialTLS(ctx, amqp.SASLTypePlain("anybody", token(ctx, allScopes, forOthers)), "")
	if err == nil || ctx.Err() != nil {
		panic(fmt.Errorf("was not refused: %v", err))
	}
}

func expiredTokenClosesTheConnection(ctx context.Context) {
	renewed, expiring := login(ctx, token(ctx, allScopes, forUsBriefly)), login(ctx, token(ctx, allScopes, forUsBriefly))
	renewed.manage().ask("204", "PUT", "/auth/tokens", []byte(token(ctx, allScopes, forUs)))
	select {
	case <-expiring.conn.Done():
	case <-ctx.Done():
		panic(ctx.Err())
	}
	ended(expiring.conn.Err(), "credential expired")
	// The first token of this connection has expired before that of the other.
	renewed.onQueue("go-amqp.renewed", "a")
	renewed.close()
}

// ended checks that the broker ended the session or the connection because the client may not go on, with these words.
func ended(err error, why string) {
	var session *amqp.SessionError
	var conn *amqp.ConnError
	var told *amqp.Error
	if errors.As(err, &session) {
		told = session.RemoteErr
	} else if errors.As(err, &conn) {
		told = conn.RemoteErr
	}
	if told == nil {
		panic(fmt.Errorf("found %v, wanted %s", err, why))
	}
	expect(told.Condition, amqp.ErrCondUnauthorizedAccess)
	expect(told.Description, why)
}
