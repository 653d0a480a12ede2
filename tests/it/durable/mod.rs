//! The contract of the durable tier: every promise, kept by every backend.
//!
//! A promise is a function of a fresh database; the list below makes a test of it for each
//! backend. A promise that is missing there is dead code, which the compiler reports.

/// Makes tests of functions for the servers that can be cut off, killed and frozen.
macro_rules! on_servers {
    ($($name:ident)*) => {
        on_servers!(mysql MySql: $($name)*);
        on_servers!(postgres Postgres: $($name)*);
    };
    ($backend:ident $database:ident: $($name:ident)*) => {
        mod $backend {
            use crate::bed::Database;
            $(
                #[tokio::test(flavor = "multi_thread")]
                async fn $name() {
                    super::$name(Database::$database).await;
                }
            )*
        }
    };
}

mod answers;
mod attention;
mod claims;
mod expiry;
mod fencing;
mod leases;
mod listing;
mod lost_answers;
mod operators;
mod outages;
mod plans;
mod raw;
mod refusals;
mod schema;
mod takeovers;
mod text;

use std::sync::Arc;
use std::time::Duration;

use oncegate::idempotency::decide::Asked;
use oncegate::idempotency::{
    Body, Credential, Fence, Fingerprint, Found, HeaderBlock, Identity, Record, Settlement,
    Snapshot,
};
use oncegate::store::durable::{Claimed, DurableTier, NewClaim, Written};

use crate::bed::{Database, identity};
use crate::support::eventually;

type Tier = Arc<dyn DurableTier>;

/// Longer than any test.
const LONG: Duration = Duration::from_secs(600);
/// Short enough to be waited for, long enough for a few statements on a busy machine.
const SHORT: Duration = Duration::from_millis(300);
const IN_TIME: Duration = Duration::from_secs(30);

macro_rules! promises {
    ($($theme:ident: $($name:ident)*;)*) => {
        promises!(mysql MySql: $($($theme $name)*)*);
        promises!(mariadb MariaDb: $($($theme $name)*)*);
        promises!(postgres Postgres: $($($theme $name)*)*);
        promises!(sqlite Sqlite: $($($theme $name)*)*);
    };
    ($backend:ident $database:ident: $($theme:ident $name:ident)*) => {
        mod $backend {
            use super::Database;
            $(
                #[tokio::test(flavor = "multi_thread")]
                async fn $name() {
                    if let Some(fresh) = Database::$database.fresh() {
                        super::$theme::$name(fresh).await;
                    }
                }
            )*
        }
    };
}

promises! {
    claims:
        a_first_claim_is_admitted_and_later_ones_are_shown_its_record
        a_claim_that_says_nothing_about_its_request_is_found_that_way
        of_64_claims_through_two_instances_one_is_admitted
        in_a_crowd_of_mixed_claims_each_identity_is_admitted_once
        writing_every_claim_on_its_own_admits_each_identity_once_too
        a_claim_whose_caller_went_away_leaves_the_key_free
        a_damaged_record_is_reported_without_failing_its_neighbours
        closing_the_tier_finishes_what_it_has_taken;
    text:
        texts_that_look_alike_are_different_identities
        the_longest_texts_of_four_byte_characters_are_kept_whole
        three_texts_are_never_mistaken_for_another_three
        an_identity_too_long_for_the_columns_is_refused_and_its_neighbours_are_not;
    answers:
        an_answer_comes_back_byte_for_byte
        an_empty_body_is_not_a_body_that_was_too_long
        the_edges_of_the_status_range_come_back
        a_failure_reads_back_with_what_it_does_to_the_next_retry
        an_unknown_outcome_reads_back_with_the_time_of_its_retry
        the_last_error_outlives_a_later_success
        answers_in_one_batch_keep_their_own_status_and_time
        a_release_removes_the_record;
    fencing:
        an_old_token_changes_nothing
        an_old_owner_in_the_batch_of_the_new_one_changes_nothing
        two_endings_of_one_attempt_at_once_leave_the_first
        a_repeated_settlement_is_applied_once
        a_second_ending_after_a_success_changes_nothing
        a_late_completion_ends_a_record_that_was_marked_unknown
        an_attempt_that_did_not_take_place_gives_its_number_back_once
        settling_many_at_once_gives_each_record_its_own_answer;
    takeovers:
        a_running_lease_is_not_taken_over
        of_32_takers_through_two_instances_one_wins_and_the_old_owner_is_fenced
        a_takeover_and_a_completion_never_both_win
        a_failure_is_taken_over_from_its_time_on
        a_probe_takes_only_what_has_gone_silent
        a_takeover_clears_the_expiry_and_keeps_the_error;
    leases:
        renewing_300_leases_at_once_keeps_them_all
        leases_that_are_lost_are_named
        only_a_lease_that_is_over_is_held
        a_lease_that_ran_out_is_renewed_as_long_as_nobody_took_it;
    expiry:
        a_finished_record_expires_by_the_clock_of_the_database
        only_an_expired_record_makes_way
        a_purge_removes_a_batch_of_expired_records_and_nothing_else
        abandoned_runs_are_listed_oldest_first
        counts_tell_running_stuck_and_unknown_apart;
    attention:
        a_decision_is_due_when_its_lock_runs_out_or_its_retry_comes
        of_two_who_move_a_due_time_one_does
        another_attempt_has_a_due_time_of_its_own
        an_unknown_call_is_due_for_its_probe_which_is_no_attempt
        what_has_ended_is_not_taken_for_a_probe
        of_two_who_mark_an_abandoned_run_one_does_and_it_stays_its_owners
        a_decision_counts_from_the_end_of_its_lock_and_goes_when_it_is_told_to;
    operators:
        forgetting_removes_the_record_and_leaves_an_audit_line
        forgetting_leaves_a_run_under_its_lease_alone
        an_operator_ends_what_nobody_runs_and_nothing_else
        each_way_to_resolve_a_record_reads_back_whole
        the_audit_trail_is_read_in_order_and_in_pages;
    listing:
        records_are_listed_newest_first_in_pages
        each_filter_finds_what_it_names_and_nothing_else
        open_records_are_listed_longest_standing_first
        an_expired_record_is_not_listed
        the_lines_of_one_record_are_read_in_order;
    refusals:
        a_refused_reference_costs_neither_its_answer_nor_its_neighbours
        a_refused_error_text_still_ends_its_attempt
        a_refused_key_does_not_fail_the_claims_beside_it;
    schema:
        migrating_twice_is_fine
        two_instances_may_migrate_at_once
        the_schema_has_its_own_tables_and_no_others
        a_database_has_a_name_of_its_own_that_stays;
    plans:
        no_statement_scans_the_records;
}

fn claim_of(identity: &Identity, lease: Duration) -> NewClaim {
    let asked = Asked {
        fingerprint: Some(Fingerprint::of_text("the request")),
        credential: Some(Credential::of(b"Bearer secret")),
    };
    NewClaim::new(identity.clone(), asked, lease)
}

/// A record of this key, running under a lease of this length.
async fn running(tier: &Tier, key: &str, lease: Duration) -> Fence {
    let claim = claim_of(&identity(key), lease);
    let fence = claim.fence;
    let claimed = tier.claim(claim).await.expect("a claim is answered");
    assert!(matches!(claimed, Claimed::New), "{key} was taken");
    fence
}

async fn settled(tier: &Tier, key: &str, settlement: Settlement) -> Fence {
    let fence = running(tier, key, LONG).await;
    assert_eq!(apply(tier, fence, settlement).await, Written::Applied);
    fence
}

async fn apply(tier: &Tier, fence: Fence, settlement: Settlement) -> Written {
    let written = tier.settle(fence, settlement).await;
    written.expect("a settlement is answered")
}

async fn look(tier: &Tier, key: &str) -> Option<Found> {
    tier.find(&identity(key)).await.expect("a key is looked up")
}

async fn record(tier: &Tier, key: &str) -> Record {
    look(tier, key).await.expect("the record is there").record
}

/// Waits until a moment of a record has come by the clock of the database.
async fn passed(tier: &Tier, key: &str, since_update: Duration) {
    eventually("a time of the database's clock", IN_TIME, async || {
        let found = look(tier, key).await.expect("the record is there");
        found.now >= found.record.updated_at + since_update
    })
    .await;
}

fn answer(body: impl Into<Vec<u8>>) -> Snapshot {
    Snapshot {
        status: 201,
        headers: HeaderBlock::from_pairs([(&b"content-type"[..], &b"text/plain"[..])]),
        body: Body::Stored(body.into().into()),
    }
}

fn success(body: &str) -> Settlement {
    Settlement::Succeed {
        answer: answer(body),
        result_ref: Some(format!("ref of {body}")),
        keep: LONG,
    }
}
