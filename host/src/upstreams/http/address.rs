//! Which addresses a plugin's request may go to. Pure: no lookup, no configuration.
//!
//! Source: the IANA special-purpose address registries (RFC 6890 and its updates), and the addresses at which clouds
//! hand credentials to whoever asks from inside.

use ipnet::{Ipv4Net, Ipv6Net};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// How far an address reaches, as far as a grant is concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reach {
    /// Anybody's: granted with the upstream.
    Public,
    /// This machine or its network: granted by `allow_private` alone.
    Private,
    /// Nobody's upstream: link-local, metadata, multicast, reserved. No setting opens these.
    Never,
}

const fn v4(a: u8, b: u8, c: u8, d: u8, bits: u8) -> Ipv4Net {
    Ipv4Net::new_assert(Ipv4Addr::new(a, b, c, d), bits)
}
const fn v6(high: [u16; 3], bits: u8) -> Ipv6Net {
    Ipv6Net::new_assert(Ipv6Addr::new(high[0], high[1], high[2], 0, 0, 0, 0, 0), bits)
}

/// Looked at first: the metadata services of Alibaba Cloud (inside the carrier-grade range), Azure (inside a public
/// range) and Oracle; the others are link-local.
const NEVER_V4: &[Ipv4Net] = &[
    v4(100, 100, 100, 200, 32),
    v4(168, 63, 129, 16, 32),
    v4(0, 0, 0, 0, 8),      // "this network", unspecified
    v4(169, 254, 0, 0, 16), // link-local, 169.254.169.254
    v4(192, 0, 0, 0, 24),   // IETF protocol assignments
    v4(192, 0, 2, 0, 24),   // documentation
    v4(192, 88, 99, 0, 24), // 6to4 relays
    v4(198, 18, 0, 0, 15),  // benchmarking
    v4(198, 51, 100, 0, 24),
    v4(203, 0, 113, 0, 24),
    v4(224, 0, 0, 0, 4), // multicast
    v4(240, 0, 0, 0, 4), // reserved, broadcast
];

const PRIVATE_V4: &[Ipv4Net] = &[
    v4(10, 0, 0, 0, 8),
    v4(100, 64, 0, 0, 10), // carrier-grade NAT
    v4(127, 0, 0, 0, 8),
    v4(172, 16, 0, 0, 12),
    v4(192, 168, 0, 0, 16),
];

/// The metadata services of AWS and Google inside the unique-local range.
const METADATA_V6: &[Ipv6Addr] =
    &[Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254), Ipv6Addr::new(0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254)];

/// Unique-local (RFC 4193).
const PRIVATE_V6: Ipv6Net = v6([0xfc00, 0, 0], 7);
/// Everything that IANA has given out; what is outside is link-local, multicast, reserved or a translation.
const GLOBAL_V6: Ipv6Net = v6([0x2000, 0, 0], 3);
/// Exceptions inside it.
const NEVER_V6: &[Ipv6Net] = &[
    v6([0x2001, 0, 0], 23),     // IETF protocol assignments, Teredo and benchmarking among them
    v6([0x2001, 0xdb8, 0], 32), // documentation
    v6([0x3fff, 0, 0], 20),     // documentation
];
/// IPv4 inside IPv6: mapped (`::ffff:a.b.c.d`), translated by a NAT64, and tunnelled (6to4). The inner address counts.
const MAPPED: Ipv6Net = Ipv6Net::new_assert(Ipv6Addr::new(0, 0, 0, 0, 0, 0xffff, 0, 0), 96);
const NAT64: Ipv6Net = v6([0x64, 0xff9b, 0], 96);
const SIX_TO_FOUR: Ipv6Net = v6([0x2002, 0, 0], 16);

pub(super) fn reach(address: IpAddr) -> Reach {
    match address {
        IpAddr::V4(address) => reach_v4(address),
        IpAddr::V6(address) => reach_v6(address),
    }
}

fn reach_v4(address: Ipv4Addr) -> Reach {
    let inside = |nets: &[Ipv4Net]| nets.iter().any(|net| net.contains(&address));
    match () {
        () if inside(NEVER_V4) => Reach::Never,
        () if inside(PRIVATE_V4) => Reach::Private,
        () => Reach::Public,
    }
}

fn reach_v6(address: Ipv6Addr) -> Reach {
    let octets = address.octets();
    let inner = |from: usize| Ipv4Addr::new(octets[from], octets[from + 1], octets[from + 2], octets[from + 3]);
    match () {
        () if MAPPED.contains(&address) || NAT64.contains(&address) => reach_v4(inner(12)),
        () if SIX_TO_FOUR.contains(&address) => reach_v4(inner(2)),
        () if METADATA_V6.contains(&address) => Reach::Never,
        () if address.is_loopback() || PRIVATE_V6.contains(&address) => Reach::Private,
        () if NEVER_V6.iter().any(|net| net.contains(&address)) || !GLOBAL_V6.contains(&address) => Reach::Never,
        () => Reach::Public,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn assert_all(expected: Reach, addresses: &[&str]) {
        for text in addresses {
            assert_eq!(reach(text.parse().unwrap()), expected, "{text}");
        }
    }

    #[test]
    fn addresses_of_the_internet_are_public() {
        assert_all(
            Reach::Public,
            &[
                "1.1.1.1",
                "9.255.255.255",
                "11.0.0.0",
                "100.63.255.255",
                "100.128.0.0",
                "172.15.255.255",
                "172.32.0.0",
                "192.167.255.255",
                "198.17.255.255",
                "223.255.255.255",
                "2606:4700:4700::1111",
                "::ffff:1.1.1.1",
                "64:ff9b::101:101",
                "2002:101:101::1",
            ],
        );
    }

    #[test]
    fn the_machine_and_its_network_are_private_in_every_spelling() {
        assert_all(
            Reach::Private,
            &[
                "127.0.0.1",
                "127.255.255.254",
                "10.0.0.7",
                "172.16.0.1",
                "172.31.255.255",
                "192.168.1.1",
                "100.64.0.1",
                "::1",
                "fc00::1",
                "fdff::1",
                "::ffff:127.0.0.1",
                "64:ff9b::7f00:1",
                "64:ff9b::a00:7",
                "2002:7f00:1::",
                "2002:c0a8:101::1",
            ],
        );
    }

    #[test]
    fn nothing_opens_metadata_link_local_multicast_or_reserved_addresses() {
        assert_all(
            Reach::Never,
            &[
                "169.254.169.254",
                "169.254.170.2",
                "100.100.100.200",
                "168.63.129.16",
                "192.0.0.192",
                "fd00:ec2::254",
                "fd20:ce::254",
                "::ffff:169.254.169.254",
                "64:ff9b::a9fe:a9fe",
                "2002:a9fe:a9fe::1",
                "64:ff9b:1::1",
                "fe80::1",
                "fec0::1",
                "0.0.0.0",
                "0.1.2.3",
                "::",
                "::7f00:1",
                "224.0.0.1",
                "ff02::1",
                "255.255.255.255",
                "240.0.0.1",
                "192.0.2.1",
                "198.51.100.7",
                "203.0.113.9",
                "198.18.0.1",
                "198.19.255.255",
                "2001:db8::1",
                "2001:2::1",
                "2001::1",
                "3fff::1",
                "100::1",
                "5f00::1",
            ],
        );
    }
}
