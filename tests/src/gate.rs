//! A door in front of the tests' Postgres that a test can shut: an outage, as the bridge sees one.

use secrecy::ExposeSecret;
use sqlx::postgres::PgConnectOptions;
use std::net::SocketAddr;
use std::path::PathBuf;
use tokio::net::{TcpListener, UnixStream};
use tokio::sync::watch;

use crate::postgres::{Database, Login};

pub struct Gate {
    pub address: SocketAddr,
    open: watch::Sender<bool>,
}

impl Gate {
    /// A free port that leads to this database's server.
    pub async fn before(database: &Database) -> Gate {
        let url = database.url(Login::Bridge);
        let options: PgConnectOptions = url.expose_secret().parse().expect("our own URL");
        let socket: PathBuf = options.get_socket().expect("the cluster is on a socket").join(".s.PGSQL.5432");
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("a bound port");
        let (open, is_open) = watch::channel(true);
        tokio::spawn(async move {
            while let Ok((mut from, _)) = listener.accept().await {
                let (socket, mut state) = (socket.clone(), is_open.clone());
                tokio::spawn(async move {
                    if !*state.borrow() {
                        return;
                    }
                    let Ok(mut to) = UnixStream::connect(socket).await else { return };
                    tokio::select! {
                        _ = tokio::io::copy_bidirectional(&mut from, &mut to) => {}
                        _ = state.wait_for(|open| !open) => {}
                    }
                });
            }
        });
        Gate { address, open }
    }

    /// Every connection breaks and no new one comes about.
    pub fn shut(&self) {
        self.open.send_replace(false);
    }

    pub fn open(&self) {
        self.open.send_replace(true);
    }
}
