//! pure: the listeners of a node, and where clients on its host reach it.

use super::settings::Settings;
use std::collections::BTreeMap;

const LISTENERS: &str = "listeners";
const CONTROLLER_NAMES: &str = "controller.listener.names";
const PROTOCOL_MAP: &str = "listener.security.protocol.map";
const PLAINTEXT: &str = "PLAINTEXT";
const PROTOCOLS: [&str; 4] = [PLAINTEXT, "SSL", "SASL_PLAINTEXT", "SASL_SSL"];

/// A listener.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listener {
    /// Its name, in capitals.
    pub name: String,
    /// Its security protocol, in capitals.
    pub protocol: String,
    /// Host that it is bound to; empty for every address.
    pub host: String,
    /// Its port; 0 for any.
    pub port: u16,
}

impl Listener {
    /// `HOST:PORT` for clients on the same host, when it speaks without TLS and SASL and its port is known.
    #[must_use]
    pub fn plaintext(&self) -> Option<String> {
        if self.protocol != PLAINTEXT || self.port == 0 {
            return None;
        }
        let host = match self.host.as_str() {
            "" | "0.0.0.0" | "::" => "127.0.0.1".to_owned(),
            address if address.contains(':') => format!("[{address}]"),
            name => name.to_owned(),
        };
        Some(format!("{host}:{}", self.port))
    }
}

/// The controller's listener and the others.
pub(super) fn read(settings: &mut Settings<'_>) -> Option<(Listener, Vec<Listener>)> {
    let Some(controllers) = settings.list(CONTROLLER_NAMES) else {
        settings.missing(CONTROLLER_NAMES, "name the listener of the controller, as CONTROLLER");
        return None;
    };
    let controllers: Vec<_> = controllers.iter().map(|name| name.to_ascii_uppercase()).collect();
    let protocols = protocols(settings, &controllers)?;
    let Some(addresses) = settings.list(LISTENERS) else {
        let remedy = "set it to an address for clients and one for the controller, as PLAINTEXT://HOST:PORT,CONTROLLER://HOST:PORT";
        settings.missing(LISTENERS, remedy);
        return None;
    };
    let mut all = Vec::new();
    for address in addresses {
        let Some((name, host, port)) = split(&address) else {
            settings.problem(LISTENERS, format_args!("{address} is no listener"), "write each as NAME://HOST:PORT");
            return None;
        };
        let Some(protocol) = protocols.get(&name) else {
            let remedy = format_args!("add {name}:PLAINTEXT, or what it speaks");
            settings.problem(PROTOCOL_MAP, format_args!("the listener {name} is not in it"), remedy);
            return None;
        };
        all.push(Listener { protocol: protocol.clone(), name, host, port });
    }
    let (mut own, others): (Vec<_>, Vec<_>) = all.into_iter().partition(|each| controllers.contains(&each.name));
    own.sort_by_key(|each| controllers.iter().position(|name| *name == each.name));
    if others.is_empty() {
        settings.problem(LISTENERS, "no listener is for clients", "add one, as PLAINTEXT://HOST:PORT");
    }
    let Some(controller) = own.into_iter().next() else {
        let why = format_args!("none of the controller's ({}) is in it", controllers.join(", "));
        settings.problem(LISTENERS, why, format_args!("add {}://HOST:PORT", controllers[0]));
        return None;
    };
    Some((controller, others))
}

/// Protocol by name of listener. Without a map, names are protocols and controllers speak without TLS and SASL.
fn protocols(settings: &mut Settings<'_>, controllers: &[String]) -> Option<BTreeMap<String, String>> {
    let Some(entries) = settings.list(PROTOCOL_MAP) else {
        let own = controllers.iter().map(|name| (name.clone(), PLAINTEXT.to_owned()));
        return Some(own.chain(PROTOCOLS.map(|name| (name.to_owned(), name.to_owned()))).collect());
    };
    let mut map = BTreeMap::new();
    for entry in entries {
        let pair = entry.split_once(':').map(|(name, protocol)| (name.trim(), protocol.trim().to_ascii_uppercase()));
        match pair {
            Some((name, protocol)) if PROTOCOLS.contains(&protocol.as_str()) => {
                map.insert(name.to_ascii_uppercase(), protocol);
            }
            _ => {
                let remedy = format_args!("write each as NAME:PROTOCOL, one of {}", PROTOCOLS.join(", "));
                settings.problem(PROTOCOL_MAP, format_args!("{entry} is no entry"), remedy);
                return None;
            }
        }
    }
    Some(map)
}

/// Name in capitals, host and port of `NAME://HOST:PORT`; the host of IPv6 stands in brackets.
fn split(address: &str) -> Option<(String, String, u16)> {
    let (name, rest) = address.split_once("://")?;
    let (host, port) = rest.rsplit_once(':')?;
    let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    let legal = |c: char| c.is_ascii_alphanumeric() || "-%._:".contains(c);
    (!name.is_empty() && host.chars().all(legal))
        .then(|| port.parse().ok().map(|port| (name.to_ascii_uppercase(), host.to_owned(), port)))?
}
