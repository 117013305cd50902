use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use amqp10::sasl::Secret;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use hyper::Uri;
use jsonwebtoken::{EncodingKey, Header, encode};
use rcgen::{KeyPair, PublicKeyData as _};
use serde_json::json;

use super::*;
use crate::url::shown;

const NOW_MS: u64 = 1_700_000_000_000;
const ISSUER: &str = "https://provider.example/realm";
const DISCOVERY: &str = "https://provider.example/realm/.well-known/openid-configuration";
const JWKS: &str = "https://keys.example/jwks";

/// What a provider answers, how often it was asked, and what time it is.
#[derive(Clone, Debug)]
pub(super) struct Pages(Arc<Mutex<HashMap<String, (String, u32)>>>, Arc<Mutex<Instant>>);

impl Default for Pages {
    fn default() -> Self {
        Self(Arc::default(), Arc::new(Mutex::new(Instant::now())))
    }
}

impl Pages {
    pub(super) fn now(&self) -> Instant {
        *self.1.lock().unwrap()
    }

    fn advance(&self, time: Duration) {
        *self.1.lock().unwrap() += time;
    }

    fn put(&self, url: &str, body: &Value) {
        let mut pages = self.0.lock().unwrap();
        pages.entry(url.to_owned()).or_default().0 = body.to_string();
    }

    fn remove(&self, url: &str) {
        self.0.lock().unwrap().remove(url);
    }

    fn asked(&self, url: &str) -> u32 {
        self.0.lock().unwrap().get(url).map_or(0, |page| page.1)
    }

    pub(super) fn get(&self, url: &Uri) -> Result<Bytes, String> {
        let mut pages = self.0.lock().unwrap();
        let page = pages
            .get_mut(&url.to_string())
            .ok_or_else(|| format!("{}: the answer is 404 Not Found", shown(url)))?;
        page.1 += 1;
        Ok(page.0.clone().into())
    }
}

struct Signer {
    id: &'static str,
    pair: KeyPair,
}

impl Signer {
    fn new(id: &'static str) -> Self {
        Self { id, pair: KeyPair::generate().unwrap() }
    }

    fn jwk(&self) -> Value {
        let point = self.pair.der_bytes();
        let part = |at: usize| URL_SAFE_NO_PAD.encode(&point[at..at + 32]);
        json!({ "kty": "EC", "crv": "P-256", "use": "sig", "kid": self.id, "x": part(1), "y": part(33) })
    }

    fn sign(&self, claims: &Value) -> String {
        let header = Header { kid: Some(self.id.to_owned()), ..Header::new(Algorithm::ES256) };
        self.sign_as(&header, claims)
    }

    fn sign_as(&self, header: &Header, claims: &Value) -> String {
        let key = EncodingKey::from_ec_pem(self.pair.serialize_pem().as_bytes()).unwrap();
        encode(header, claims, &key).unwrap()
    }
}

fn claims() -> Value {
    json!({ "sub": "ann", "aud": "rabbitmq", "exp": 1_700_000_060, "scope": "rabbitmq.read:*/*" })
}

fn server(id: &str, provider: &str) -> ServerOptions {
    let server = ResourceServer { id: id.into(), ..ResourceServer::default() };
    ServerOptions { server, provider: provider.into() }
}

/// Returns a backend whose provider has these pages.
fn backend(options: ProviderOptions, pages: &Pages) -> OAuth2 {
    let mut provider = Provider::load("", options).unwrap();
    provider.answer_with(pages.clone());
    let server = ResourceServer { id: "rabbitmq".into(), ..ResourceServer::default() };
    OAuth2 { servers: vec![(server, Arc::new(provider))], verify_audience: true, verify_issuer: false }
}

fn discovered(keys: &[&Signer]) -> (OAuth2, Pages) {
    let pages = Pages::default();
    pages.put(DISCOVERY, &json!({ "issuer": ISSUER, "jwks_uri": JWKS }));
    pages.put(JWKS, &json!({ "keys": keys.iter().map(|key| key.jwk()).collect::<Vec<_>>() }));
    let options = ProviderOptions { issuer: Some(ISSUER.into()), ..ProviderOptions::default() };
    (backend(options, &pages), pages)
}

async fn check(backend: &OAuth2, token: &str) -> Result<String, TokenError> {
    backend.check_token(token.as_bytes(), NOW_MS).await.map(|who| who.user.to_string())
}

fn unknown(id: &str, why: Option<&str>) -> Result<String, TokenError> {
    Err(TokenError::UnknownKey(id.into(), why.map(str::to_owned)))
}

#[tokio::test]
async fn a_token_that_the_provider_signed_is_a_login() {
    let signer = Signer::new("a");
    let backend = Arc::new(discovered(&[&signer]).0);
    let login = |password: String| Login {
        credentials: Credentials::Plain { user: "ignored".into(), password: Secret::new(password) },
        from: IpAddr::V4(Ipv4Addr::LOCALHOST),
        at_ms: NOW_MS,
    };
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    let mut claims = claims();
    claims["exp"] = json!(now + 3600);
    let identity = backend.clone().check(&login(signer.sign(&claims))).await.unwrap();
    assert_eq!(&*identity.user, "ann");
    assert_eq!(identity.token.unwrap().expires_ms, (now + 3600) * 1000, "by the clock of the system");
    let refused = backend.check(&login("a password".into())).await;
    assert_eq!(refused, Err(LoginRefused::External("token: it is not a JWT".into())));
}

#[tokio::test]
async fn a_token_must_be_signed_by_its_key_with_an_algorithm_of_that_key() {
    let (signer, thief) = (Signer::new("a"), Signer::new("a"));
    let (backend, _) = discovered(&[&signer]);
    assert_eq!(check(&backend, &thief.sign(&claims())).await, Err(TokenError::Signature));
    let token = signer.sign(&claims());
    let (signed, signature) = token.rsplit_once('.').unwrap();
    let others = signer.sign(&json!({ "sub": "root", "aud": "rabbitmq", "exp": 1_800_000_000 }));
    let mixed = format!("{}.{signature}", others.rsplit_once('.').unwrap().0);
    assert_eq!(check(&backend, &mixed).await, Err(TokenError::Signature));
    assert_eq!(check(&backend, &format!("{signed}.")).await, Err(TokenError::Signature));

    // The public key as the secret of HS256, and no signature at all.
    let header = Header { kid: Some("a".into()), ..Header::new(Algorithm::HS256) };
    let public = signer.pair.public_key_pem();
    let forged = encode(&header, &claims(), &EncodingKey::from_secret(public.as_bytes())).unwrap();
    assert_eq!(check(&backend, &forged).await, Err(TokenError::Algorithm("HS256".into())));
    let none = URL_SAFE_NO_PAD.encode(r#"{"alg":"none","kid":"a"}"#);
    let body = signed.split_once('.').unwrap().1;
    let unsupported = |name: &str| Err(TokenError::Unsupported(name.to_owned()));
    assert_eq!(check(&backend, &format!("{none}.{body}.")).await, unsupported("none"));
    // An extension that must be known, whether it is or is not of the form that it should have.
    for critical in [json!(["b64"]), json!(["exp"]), json!([]), json!("exp"), json!(null)] {
        let header = json!({ "alg": "RS256", "kid": "a", "crit": critical, "b64": false }).to_string();
        let token = format!("{}.{body}.x", URL_SAFE_NO_PAD.encode(header));
        assert_eq!(check(&backend, &token).await, Err(TokenError::Critical(critical.to_string())));
    }
    // RabbitMQ has these algorithms, too.
    for name in ["ES512", "ES256K"] {
        let header = URL_SAFE_NO_PAD.encode(json!({ "alg": name, "kid": "a" }).to_string());
        assert_eq!(check(&backend, &format!("{header}.{body}.x")).await, unsupported(name));
    }
    let told = TokenError::Unsupported("ES512".into()).to_string();
    assert!(told.starts_with("token: its algorithm 'ES512' is none of RS256, RS384, "), "{told}");
}

#[tokio::test]
async fn each_algorithm_of_the_table_works() {
    use rcgen::{PKCS_ECDSA_P256_SHA256, PKCS_ECDSA_P384_SHA384, PKCS_ED25519, PKCS_RSA_SHA256};
    type FromPem = fn(&[u8]) -> jsonwebtoken::errors::Result<EncodingKey>;
    let kinds: [(_, FromPem, &[&str]); 4] = [
        (
            &PKCS_RSA_SHA256,
            EncodingKey::from_rsa_pem,
            &["RS256", "RS384", "RS512", "PS256", "PS384", "PS512"],
        ),
        (&PKCS_ECDSA_P256_SHA256, EncodingKey::from_ec_pem, &["ES256"]),
        (&PKCS_ECDSA_P384_SHA384, EncodingKey::from_ec_pem, &["ES384"]),
        (&PKCS_ED25519, EncodingKey::from_ed_pem, &["EdDSA"]),
    ];
    let mut seen = 0;
    for (kind, from_pem, names) in kinds {
        let pair = KeyPair::generate_for(kind).unwrap();
        let public = File::new(&format!("{}.pem", names[0]), &pair.public_key_pem());
        let key = from_pem(pair.serialize_pem().as_bytes()).unwrap();
        for name in names {
            let algorithm = algorithm(name).unwrap();
            let backend = backend(with_file(&public, &[]), &Pages::default());
            let header = Header { kid: Some("k".into()), ..Header::new(algorithm) };
            let token = encode(&header, &claims(), &key).unwrap();
            assert_eq!(check(&backend, &token).await, Ok("ann".into()), "{name}");
            seen += 1;
        }
    }
    for name in ["HS256", "HS384", "HS512"] {
        let (algorithm, secret) = (algorithm(name).unwrap(), "s".repeat(64));
        let file = File::new(name, &secret);
        let header = Header { kid: Some("k".into()), ..Header::new(algorithm) };
        let token = encode(&header, &claims(), &EncodingKey::from_secret(secret.as_bytes())).unwrap();
        let backend = backend(with_file(&file, &[algorithm]), &Pages::default());
        assert_eq!(check(&backend, &token).await, Ok("ann".into()), "{name}");
        seen += 1;
    }
    assert_eq!(seen, algorithm_names().split(", ").count());
}

#[tokio::test]
async fn the_issuer_of_a_token_counts_if_the_operator_wants_it() {
    let signer = Signer::new("a");
    let (mut backend, _) = discovered(&[&signer]);
    let with = |iss: Value| {
        let mut claims = claims();
        claims["iss"] = iss;
        signer.sign(&claims)
    };
    let other = with(json!("https://other.example"));
    assert_eq!(check(&backend, &other).await, Ok("ann".into()), "as in RabbitMQ");
    backend.verify_issuer = true;
    let refused = |why: &str| Err(TokenError::Claim("iss", why.into()));
    let not_it = "it is not the issuer of the provider (auth_oauth2.issuer)";
    for (token, result) in [
        (with(json!(ISSUER)), Ok("ann".to_owned())),
        (with(json!(format!("{ISSUER}/"))), Ok("ann".to_owned())),
        (other, refused(not_it)),
        (with(json!(format!("{ISSUER}/more"))), refused(not_it)),
        (with(json!([ISSUER])), refused("it must be a text")),
        (signer.sign(&claims()), refused("it is missing")),
    ] {
        assert_eq!(check(&backend, &token).await, result);
    }
    let file = File::new("issuer.pem", &signer.pair.public_key_pem());
    let providers = [(String::new(), with_file(&file, &[]))].into();
    let (resource_servers, verify_audience, verify_issuer) = (vec![server("a", "")], true, true);
    let refused = OAuth2::load(Options { resource_servers, providers, verify_audience, verify_issuer });
    assert_eq!(
        refused.map(|_| ()).unwrap_err().to_string(),
        "auth_oauth2.issuer: auth_oauth2.verify_iss needs it"
    );
}

#[tokio::test]
async fn a_token_must_be_for_this_broker() {
    let signer = Signer::new("a");
    let (backend, _) = discovered(&[&signer]);
    for (aud, is_right) in [
        (json!("rabbitmq"), true),
        (json!(["other", "rabbitmq"]), true),
        (json!("other"), false),
        (json!([]), false),
        (json!(null), false),
    ] {
        let mut claims = claims();
        claims["aud"] = aud.clone();
        assert_eq!(check(&backend, &signer.sign(&claims)).await.is_ok(), is_right, "{aud}");
    }
    let mut without = claims();
    without.as_object_mut().unwrap().remove("aud");
    let (mut trusting, _) = discovered(&[&signer]);
    trusting.verify_audience = false;
    assert_eq!(check(&trusting, &signer.sign(&without)).await, Ok("ann".into()));
    assert!(check(&backend, &signer.sign(&without)).await.is_err());
}

/// New keys are fetched when a token names one, but not more often than once a minute. The fetch at the start does not count.
#[tokio::test]
async fn an_unknown_key_is_fetched_at_most_once_a_minute() {
    let (old, new, newest) = (Signer::new("old"), Signer::new("new"), Signer::new("newest"));
    let (backend, pages) = discovered(&[&old]);
    backend.prepare().await;
    assert_eq!(check(&backend, &old.sign(&claims())).await, Ok("ann".into()));
    pages.put(JWKS, &json!({ "keys": [new.jwk(), old.jwk()] }));
    assert_eq!(check(&backend, &new.sign(&claims())).await, Ok("ann".into()));
    assert_eq!(check(&backend, &old.sign(&claims())).await, Ok("ann".into()));
    pages.put(JWKS, &json!({ "keys": [newest.jwk(), new.jwk()] }));
    for _ in 0..100 {
        assert_eq!(check(&backend, &newest.sign(&claims())).await, unknown("newest", None));
    }
    assert_eq!(pages.asked(JWKS), 2);
    pages.advance(Duration::from_secs(60));
    let token = newest.sign(&claims());
    let both = tokio::join!(check(&backend, &token), check(&backend, &token));
    assert_eq!(both, (Ok("ann".into()), Ok("ann".into())));
    assert_eq!(pages.asked(JWKS), 3);
    pages.advance(Duration::from_secs(60));
    assert_eq!(check(&backend, &old.sign(&claims())).await, unknown("old", None), "it was withdrawn");
}

/// A broker that starts before its provider does not refuse all tokens for a minute.
#[tokio::test]
async fn the_first_keys_are_asked_for_more_often() {
    let signer = Signer::new("a");
    let (backend, pages) = discovered(&[&signer]);
    pages.remove(DISCOVERY);
    backend.prepare().await;
    let token = signer.sign(&claims());
    assert!(check(&backend, &token).await.is_err());
    pages.put(DISCOVERY, &json!({ "jwks_uri": JWKS }));
    assert!(check(&backend, &token).await.is_err(), "not at once");
    pages.advance(Duration::from_secs(5));
    assert_eq!(check(&backend, &token).await, Ok("ann".into()));
}

#[tokio::test]
async fn old_keys_stay_while_no_new_ones_come() {
    let (signer, other) = (Signer::new("a"), Signer::new("b"));
    let (backend, pages) = discovered(&[&signer]);
    let token = signer.sign(&claims());
    assert_eq!(check(&backend, &token).await, Ok("ann".into()));
    pages.remove(JWKS);
    pages.advance(Duration::from_secs(60));
    let why = format!("{JWKS}: the answer is 404 Not Found");
    assert_eq!(check(&backend, &other.sign(&claims())).await, unknown("b", Some(&why)));
    for _ in 0..5 {
        pages.advance(Duration::from_secs(3600));
        assert_eq!(check(&backend, &token).await, Ok("ann".into()));
        tokio::task::yield_now().await;
    }
    pages.put(JWKS, &json!({ "keys": [other.jwk()] }));
    pages.advance(Duration::from_secs(3600));
    // This login starts the fetch, and does not wait for it.
    assert_eq!(check(&backend, &token).await, Ok("ann".into()));
    tokio::task::yield_now().await;
    assert_eq!(check(&backend, &token).await, unknown("a", None), "withdrawn within the hour");
}

#[tokio::test]
async fn what_a_provider_publishes_must_make_sense() {
    let signer = Signer::new("a");
    let of = async |discovery: Value, jwks: Value| {
        let (backend, pages) = discovered(&[]);
        pages.put(DISCOVERY, &discovery);
        pages.put(JWKS, &jwks);
        check(&backend, &signer.sign(&claims())).await.unwrap_err().to_string()
    };
    let keys = json!({ "keys": [signer.jwk()] });
    let why = of(json!({ "jwks_uri": "http://keys.example/jwks" }), keys.clone()).await;
    assert!(why.contains("must be a URL that starts with https://"), "{why}");
    let with_password = "https://u:hunter2@keys.example/jwks";
    let why = of(json!({ "jwks_uri": with_password }), keys.clone()).await;
    assert!(why.contains("must not have a user and a password") && !why.contains("hunter2"), "{why}");
    let why = of(json!({ "jwks_uri": "http://u:hunter2@keys.example/jwks" }), keys.clone()).await;
    assert!(!why.contains("hunter2"), "{why}");
    let why = of(json!({ "jwks_uri": "https://none.example/jwks?token=hunter2" }), keys.clone()).await;
    assert!(why.contains("https://none.example/jwks") && !why.contains("hunter2"), "{why}");
    assert!(of(json!({}), keys.clone()).await.contains("it has no jwks_uri"));
    assert!(of(json!({ "jwks_uri": JWKS }), json!([])).await.contains("this is not a JWKS"));
    // Keys for encryption, secrets, and keys of other kinds are not keys of tokens.
    let mut encrypting = signer.jwk();
    encrypting["use"] = json!("enc");
    let secret = json!({ "kty": "oct", "kid": "a", "k": URL_SAFE_NO_PAD.encode([7; 32]) });
    let strange = json!({ "kty": "new", "kid": "a" });
    let curve = |kty: &str, crv: &str| json!({ "kty": kty, "crv": crv, "kid": "a", "x": "AA", "y": "AA" });
    let curves =
        [curve("EC", "P-521"), curve("EC", "secp256k1"), curve("OKP", "Ed448"), curve("OKP", "X25519")];
    let mut others = vec![encrypting, secret, strange, json!({ "kty": "RSA" }), json!(5)];
    others.extend(curves);
    let all = json!({ "keys": others.clone() });
    assert!(of(json!({ "jwks_uri": JWKS }), all).await.contains("no key has the kid 'a'"));
    // They do not hide the key beside them.
    others.push(signer.jwk());
    let (backend, pages) = discovered(&[]);
    pages.put(JWKS, &json!({ "keys": others }));
    assert_eq!(check(&backend, &signer.sign(&claims())).await, Ok("ann".into()));
}

/// Returns the path of a file with this content, which is deleted with its directory.
struct File(std::path::PathBuf);

impl File {
    fn new(name: &str, content: &str) -> Self {
        let path = std::env::temp_dir().join(format!("sluice-{}-{name}", std::process::id()));
        std::fs::write(&path, content).unwrap();
        Self(path)
    }
}

impl Drop for File {
    fn drop(&mut self) {
        drop(std::fs::remove_file(&self.0));
    }
}

fn with_file(file: &File, algorithms: &[Algorithm]) -> ProviderOptions {
    ProviderOptions {
        signing_keys: [("k".to_owned(), file.0.clone())].into(),
        algorithms: algorithms.to_vec(),
        ..ProviderOptions::default()
    }
}

#[tokio::test]
async fn keys_may_be_in_files() {
    let signer = Signer::new("k");
    let public = File::new("public.pem", &signer.pair.public_key_pem());
    let named = backend(with_file(&public, &[]), &Pages::default());
    assert_eq!(check(&named, &signer.sign(&claims())).await, Ok("ann".into()));
    let unnamed = signer.sign_as(&Header::new(Algorithm::ES256), &claims());
    assert_eq!(check(&named, &unnamed).await, Ok("ann".into()), "the only key");
    assert_eq!(check(&named, &Signer::new("x").sign(&claims())).await, unknown("x", None));
    let narrow = backend(with_file(&public, &[Algorithm::RS256]), &Pages::default());
    assert_eq!(check(&narrow, &signer.sign(&claims())).await, Err(TokenError::Algorithm("ES256".into())));

    let secret = "0123456789abcdef0123456789abcdef";
    let file = File::new("secret", &format!("{secret}\n"));
    let shared = backend(with_file(&file, &[Algorithm::HS256]), &Pages::default());
    let header = Header { kid: Some("k".into()), ..Header::new(Algorithm::HS256) };
    let token = encode(&header, &claims(), &EncodingKey::from_secret(secret.as_bytes())).unwrap();
    assert_eq!(check(&shared, &token).await, Ok("ann".into()));
}

#[test]
fn settings_that_cannot_work_are_refused() {
    let private = File::new("private.pem", &Signer::new("k").pair.serialize_pem());
    let short = File::new("short", "secret");
    let curve = KeyPair::generate_for(&rcgen::PKCS_ECDSA_P521_SHA512).unwrap();
    let curve = File::new("curve.pem", &curve.public_key_pem());
    let long = File::new("long", &"x".repeat(40));
    let refused = |options: ProviderOptions| Provider::load("p", options).unwrap_err().to_string();
    let https = |issuer: &str| refused(ProviderOptions { issuer: Some(issuer.into()), ..Default::default() });
    assert!(https("http://a").starts_with("auth_oauth2.oauth_providers.p.issuer: 'http://a/.well-known"));
    assert!(https("").contains("must be a URL that starts with https://"));
    assert!(refused(ProviderOptions::default()).contains("auth_oauth2.oauth_providers.p.signing_keys.KID"));
    assert!(refused(with_file(&private, &[])).contains("this is a private key"));
    assert!(refused(with_file(&curve, &[])).contains("the curve of this key must be P-256 or P-384"));
    assert!(refused(with_file(&long, &[])).contains("a secret needs auth_oauth2.algorithms"));
    assert!(refused(with_file(&short, &[Algorithm::HS256])).contains("32 bytes or more"));
    let gone =
        ProviderOptions { signing_keys: [("k".into(), "/nothing/here".into())].into(), ..Default::default() };
    assert!(refused(gone).contains("signing_keys.k: /nothing/here: "));

    let load = |servers: Vec<ServerOptions>, verify_audience| {
        let provider = with_file(&File::new("public", &Signer::new("k").pair.public_key_pem()), &[]);
        let file = File::new("public-too", &Signer::new("k").pair.public_key_pem());
        let provider = ProviderOptions { signing_keys: [("k".into(), file.0.clone())].into(), ..provider };
        let providers = [("p".to_owned(), provider)].into();
        let (resource_servers, verify_issuer) = (servers, false);
        OAuth2::load(Options { resource_servers, providers, verify_audience, verify_issuer })
            .map(|_| ())
            .unwrap_err()
            .to_string()
    };
    assert!(load(vec![], true).starts_with("auth_oauth2.resource_server_id"));
    assert!(load(vec![server("a", "q")], true).contains("oauth_providers.q: there is no such provider"));
    assert!(load(vec![server("a", "")], true).contains("must say who signs the tokens"));
    assert!(load(vec![server("a", "p"), server("b", "p")], false).starts_with("auth_oauth2.verify_aud"));
}
