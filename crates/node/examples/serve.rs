fn main() {
    tracing_subscriber::fmt().with_env_filter("info").with_writer(std::io::stderr).init();
    let mut port = 5672u16; let mut data = std::path::PathBuf::from("./data"); let mut shards = 2usize;
    let mut args = std::env::args().skip(1);
    while let Some(a) = args.next() { match a.as_str() {
        "serve" => {}
        "--version" => { println!("sluice 0"); return; }
        "--data-dir" => data = args.next().unwrap().into(),
        "--set" => { let kv = args.next().unwrap(); let (k,v)=kv.split_once('=').unwrap(); match k { "listeners.tcp.default" => port = v.rsplit(':').next().unwrap().parse().unwrap(), "shards" => shards=v.parse().unwrap(), _=>{} } }
        _ => panic!() } }
    let user = broker::access::User { name: "guest".into(), password: amqp10::sasl::Secret::new("guest"), tags: vec!["administrator".into()], loopback_only: true, permissions: [("/".into(), broker::access::Permissions::ALL)].into_iter().collect() };
    let node = node::Node::start(node::NodeOptions { settings: Default::default(), access: broker::access::Access::new([user]), shards, data_dir: data }).unwrap();
    let rt = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    rt.block_on(async {
        let l = tokio::net::TcpListener::bind(("127.0.0.1", port)).await.unwrap();
        let m = tokio::net::TcpListener::bind(("127.0.0.1", port + 10000)).await.unwrap();
        tokio::spawn(node.listen(l));
        let desk = node.desk().clone();
        tokio::spawn(admin::serve(m, admin::management_router(desk), std::future::pending()));
        let mut term = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate()).unwrap();
        term.recv().await;
    });
    rt.shutdown_background();
    node.stop("bye").unwrap();
}
