//! Session ids that any replica can check and none has to store.
//!
//! An id is a UUID (version 8) whose 122 free bits hold when it ends, what the client said that it can do, a random part,
//! and a keyed MAC over all of it and the subject. It proves nothing about who presents it: every request is identified by
//! its token, and an id that was made for somebody else is simply unknown. Source: design section 6, sessions; MCP
//! 2025-11-25, transports, session management, and security best practices, session hijacking.
//!
//! Bits, from the left: 24 expiry (minutes since 2025), 8 facts, 34 random, 56 MAC.

use jiff::Timestamp;
use ring::hmac;
use ring::rand::{SecureRandom, SystemRandom};
use uuid::Uuid;

use super::caller::Caller;
use super::clock::Clock;
use crate::model::ClientFacts;

/// 2025-01-01T00:00:00Z.
const EPOCH_SECONDS: i64 = 1_735_689_600;
const RANDOM_BITS: u32 = 34;
const MAC_BITS: u32 = 56;
const FREE_BITS: u32 = 122;

/// Makes and checks session ids with one key, which all replicas of a server share.
pub struct SessionIds {
    key: hmac::Key,
    clock: Clock,
    random: SystemRandom,
    lifetime_seconds: i64,
}

/// What an id that is ours says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenSession {
    pub id: Uuid,
    pub facts: ClientFacts,
    pub expires_at: Timestamp,
    /// It was opened before its client signed in, so whoever knows it may have gone on with it.
    pub adopted: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadSessionId {
    /// It could never have been an id of ours: status 400.
    NotAnId,
    /// Expired, another subject's, or forged: status 404, so that a client starts anew.
    Unknown,
}

impl SessionIds {
    /// `root` is a key from which this one is derived, so that one file serves several purposes.
    pub(super) fn derived_from(root: &hmac::Key, clock: Clock, lifetime_seconds: i64) -> Self {
        let derived = hmac::sign(root, b"cyberos-mcp-bridge session ids v1");
        let key = hmac::Key::new(hmac::HMAC_SHA256, derived.as_ref());
        SessionIds { key, clock, random: SystemRandom::new(), lifetime_seconds }
    }

    /// A new session of this caller.
    pub fn mint(&self, caller: &Caller, facts: ClientFacts) -> OpenSession {
        let minutes = (self.clock.now().as_second() + self.lifetime_seconds - EPOCH_SECONDS).max(0) / 60;
        let mut random = [0u8; 8];
        self.random.fill(&mut random).expect("the system has randomness");
        let random = u64::from_be_bytes(random) >> (64 - RANDOM_BITS);
        let claims = (u128::from(minutes as u64 & 0xff_ffff) << 42)
            | (u128::from(facts.to_bits()) << RANDOM_BITS)
            | u128::from(random);
        let bits = (claims << MAC_BITS) | u128::from(self.mac(caller, claims));
        OpenSession { id: to_uuid(bits), facts, expires_at: ends_at(claims), adopted: false }
    }

    /// A session of this caller, or one that was opened before its client had a token.
    pub fn read(&self, text: &str, caller: &Caller) -> Result<OpenSession, BadSessionId> {
        // One spelling only: state is kept under the id.
        let is_plain = text.len() == 36 && !text.bytes().any(|b| b.is_ascii_uppercase());
        let id = Uuid::try_parse(text).ok().filter(|_| is_plain).ok_or(BadSessionId::NotAnId)?;
        if id.get_version_num() != 8 || id.get_variant() != uuid::Variant::RFC4122 {
            return Err(BadSessionId::Unknown);
        }
        let bits = from_uuid(id);
        let claims = bits >> MAC_BITS;
        let given = (bits & ((1 << MAC_BITS) - 1)) as u64;
        // Each guess costs a request, so how long a comparison takes tells nothing worth having.
        let adopted = self.mac(caller, claims) != given;
        if adopted && self.mac(&Caller::anonymous(), claims) != given {
            return Err(BadSessionId::Unknown);
        }
        let expires_at = ends_at(claims);
        if self.clock.now() >= expires_at {
            return Err(BadSessionId::Unknown);
        }
        Ok(OpenSession { id, facts: ClientFacts::from_bits((claims >> RANDOM_BITS) as u8), expires_at, adopted })
    }

    /// Under which a session's changes are kept: one that several subjects may have adopted is each one's own.
    pub fn place(&self, open: &OpenSession, caller: &Caller) -> Uuid {
        if !open.adopted {
            return open.id;
        }
        let mut context = hmac::Context::with_key(&self.key);
        context.update(b"adopted");
        context.update(open.id.as_bytes());
        context.update(caller.subject().as_bytes());
        Uuid::new_v8(context.sign().as_ref()[..16].try_into().expect("a tag has 32 bytes"))
    }

    fn mac(&self, owner: &Caller, claims: u128) -> u64 {
        let mut context = hmac::Context::with_key(&self.key);
        context.update(&claims.to_be_bytes());
        // The tenant has a fixed length, so no two pairs run together to the same bytes.
        context.update(owner.tenant().0.as_bytes());
        context.update(owner.subject().as_bytes());
        let tag = context.sign();
        let first: [u8; 8] = tag.as_ref()[..8].try_into().expect("a tag has 32 bytes");
        u64::from_be_bytes(first) >> (64 - MAC_BITS)
    }
}

fn ends_at(claims: u128) -> Timestamp {
    let minutes = (claims >> 42) as i64;
    Timestamp::from_second(EPOCH_SECONDS + minutes * 60).expect("24 bits of minutes are 32 years")
}

/// The 122 bits around the version (byte 6) and the variant (byte 8).
fn to_uuid(bits: u128) -> Uuid {
    debug_assert!(bits >> FREE_BITS == 0);
    let (high, middle, low) = (bits >> 74, (bits >> 62) & 0xfff, bits & ((1 << 62) - 1));
    Uuid::new_v8(((high << 80) | (middle << 64) | low).to_be_bytes())
}

fn from_uuid(id: Uuid) -> u128 {
    let all = id.as_u128();
    ((all >> 80) << 74) | (((all >> 64) & 0xfff) << 62) | (all & ((1 << 62) - 1))
}

#[cfg(test)]
mod tests {
    use super::super::clock::TestClock;
    use super::*;
    use crate::model::{ClientFeatures, TenantId};
    use std::collections::{BTreeSet, HashSet};

    fn caller(subject: &str) -> Caller {
        Caller::from_token(TenantId(Uuid::from_u128(7)), subject.into(), BTreeSet::new(), Timestamp::MAX)
    }

    fn ids(clock: &TestClock) -> SessionIds {
        SessionIds::derived_from(&hmac::Key::new(hmac::HMAC_SHA256, &[7; 32]), clock.clock(), 3600)
    }

    fn facts() -> ClientFacts {
        let features = ClientFeatures { elicit_form: true, sample: true, ..ClientFeatures::default() };
        ClientFacts { features, underscore_names: true }
    }

    #[test]
    fn an_id_carries_what_the_client_said_and_ends() {
        let clock = TestClock::start();
        let (ids, alice) = (ids(&clock), caller("alice"));
        let minted = ids.mint(&alice, facts());
        assert_eq!(ids.read(&minted.id.to_string(), &alice), Ok(minted));
        assert_eq!(minted.facts, facts());
        clock.advance(3_601);
        assert_eq!(ids.read(&minted.id.to_string(), &alice), Err(BadSessionId::Unknown));
    }

    #[test]
    fn an_id_is_unknown_to_everybody_else_and_under_another_key() {
        let clock = TestClock::start();
        let ids = ids(&clock);
        let text = ids.mint(&caller("alice"), facts()).id.to_string();
        assert_eq!(ids.read(&text, &caller("bob")), Err(BadSessionId::Unknown));
        assert_eq!(ids.read(&text, &Caller::local()), Err(BadSessionId::Unknown));
        let other = SessionIds::derived_from(&hmac::Key::new(hmac::HMAC_SHA256, &[8; 32]), clock.clock(), 3600);
        assert_eq!(other.read(&text, &caller("alice")), Err(BadSessionId::Unknown));
    }

    #[test]
    fn a_session_that_was_opened_before_signing_in_is_adopted() {
        let ids = ids(&TestClock::start());
        let text = ids.mint(&Caller::anonymous(), facts()).id.to_string();
        let (alice, bob) = (caller("alice"), caller("bob"));
        let (hers, his) = (ids.read(&text, &alice).unwrap(), ids.read(&text, &bob).unwrap());
        assert_ne!(ids.place(&hers, &alice), ids.place(&his, &bob), "what one of them changes is not the other's");
    }

    #[test]
    fn every_flipped_bit_and_every_other_spelling_is_refused() {
        let ids = ids(&TestClock::start());
        let alice = caller("alice");
        let id = ids.mint(&alice, facts()).id;
        for bit in 0..128 {
            let forged = Uuid::from_u128(id.as_u128() ^ (1 << bit)).to_string();
            assert!(ids.read(&forged, &alice).is_err(), "bit {bit}");
        }
        for text in ["", "x", &id.simple().to_string(), &format!("{{{id}}}"), &id.to_string().to_uppercase()] {
            assert!(ids.read(text, &alice).is_err() || text == id.to_string(), "{text}");
        }
        assert_eq!(ids.read("not-a-session", &alice), Err(BadSessionId::NotAnId));
        assert_eq!(ids.read(&Uuid::new_v4().to_string(), &alice), Err(BadSessionId::Unknown));
    }

    #[test]
    fn ten_thousand_ids_of_one_subject_are_different() {
        let ids = ids(&TestClock::start());
        let alice = caller("alice");
        let all: HashSet<Uuid> = (0..10_000).map(|_| ids.mint(&alice, facts()).id).collect();
        assert_eq!(all.len(), 10_000);
    }
}
