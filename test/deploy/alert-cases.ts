/** For each alert: what Prometheus sees, and when the alert fires. */

/** The series of a service in which nothing is wrong; each line is a value a minute. */
export const HEALTHY: Readonly<Record<string, string>> = {
  'up{job="sign-in-service",instance="a"}': "1x120",
  'sign_in_request_duration_seconds_count{endpoint="token",status="2xx"}': "0+600x120",
  'sign_in_request_duration_seconds_count{endpoint="token",status="5xx"}': "0x120",
  'sign_in_request_duration_seconds_bucket{endpoint="token",status="2xx",le="0.1"}': "0+600x120",
  'sign_in_request_duration_seconds_bucket{endpoint="token",status="2xx",le="5"}': "0+600x120",
  'sign_in_request_duration_seconds_bucket{endpoint="token",status="2xx",le="+Inf"}': "0+600x120",
  'sign_in_storage_duration_seconds_count{store="storage",operation="get",result="success"}': "0+6000x120",
  'sign_in_storage_duration_seconds_count{store="storage",operation="get",result="failure"}': "0x120",
  'sign_in_storage_duration_seconds_count{store="storage",operation="commit",result="conflict"}': "0+600x120",
  'sign_in_storage_duration_seconds_bucket{store="storage",operation="get",result="success",le="0.01"}':
    "0+6000x120",
  'sign_in_storage_duration_seconds_bucket{store="storage",operation="get",result="success",le="5"}':
    "0+6000x120",
  'sign_in_storage_duration_seconds_bucket{store="storage",operation="get",result="success",le="+Inf"}':
    "0+6000x120",
  sign_in_hashing_refused_total: "0x120",
  'sign_in_sign_ins_total{result="success"}': "0+50x120",
  'sign_in_sign_ins_total{result="credentials"}': "0+5x120",
  'sign_in_sign_ins_total{result="limited"}': "0+1x120",
  'sign_in_token_errors_total{error="invalid_client",grant_type="password"}': "0x120",
  'sign_in_deliveries{receiver="service:1",state="waiting"}': "3x120",
  'sign_in_deliveries{receiver="service:1",state="parked"}': "0x120",
  'sign_in_backchannel_logouts_total{result="failed",reason="timeout"}': "0x120",
  sign_in_mail_outbox: "0x120",
  'sign_in_mails_total{kind="password-changed",result="failed"}': "0x120",
  'nodejs_eventloop_lag_p99_seconds{job="sign-in-service",instance="a"}': "0.02x120",
  'sign_in_clock_difference_seconds{store="storage",instance="a"}': "0.2x120",
  'sign_in_artifacts_lost_timestamp_seconds{instance="a"}': "0x120",
  'sign_in_log_lines_dropped_total{instance="a"}': "0x120",
  'sign_in_queue_up{instance="a"}': "1x120",
  'sign_in_limit_refusals_total{limit="interactions"}': "0x120",
  'sign_in_limit_refusals_total{limit="administration.accounts"}': "0x120",
  'sign_in_administration_responses_total{surface="rest",status="2xx"}': "0+600x120",
  'sign_in_administration_responses_total{surface="rest",status="401"}': "0+1x120",
  sign_in_administration_tokens_ending: "0x120",
  'sign_in_token_errors_total{error="invalid_grant",grant_type="refresh_token"}': "0x120",
  'sign_in_token_responses_total{grant_type="refresh_token",kind="web"}': "0+600x120",
  'sign_in_reloads_total{result="refused",instance="a"}': "0x120",
  'sign_in_process_info{role="server",version="1",configuration="a",instance="a"}': "1x120",
  'sign_in_process_info{role="worker",version="1",configuration="b",instance="c"}': "1x120",
  'sign_in_pool_connections{store="storage",state="waiting",instance="a"}': "0x120",
  'sign_in_audit_records_lost_total{instance="a"}': "0x120",
  'sign_in_signing_key_created_timestamp_seconds{alg="RS256"}': "0x120",
};

/** What is different, and when the alert fires at last and does not yet, in minutes. */
export interface AlertCase {
  readonly alert: string;
  readonly series: Readonly<Record<string, string | undefined>>;
  readonly fires: number;
  readonly quiet?: number;
  /** How many alerts fire: one for each receiver, store or process. Default 1. */
  readonly count?: number;
  /** Other alerts that fire with it. */
  readonly others?: number;
}

export const CASES: readonly AlertCase[] = [
  {
    alert: "SignInDown",
    series: { 'up{job="sign-in-service",instance="b"}': "1x9 0x120" },
    fires: 12,
    quiet: 10,
  },
  {
    alert: "SignInAbsent",
    series: { 'up{job="sign-in-service",instance="a"}': undefined },
    fires: 5,
    quiet: 4,
  },
  {
    alert: "SignInFaults",
    series: { 'sign_in_request_duration_seconds_count{endpoint="token",status="5xx"}': "0x20 0+30x120" },
    fires: 30,
    quiet: 20,
  },
  {
    alert: "SignInSlow",
    series: {
      'sign_in_request_duration_seconds_bucket{endpoint="token",status="2xx",le="0.1"}': "0+500x120",
    },
    fires: 12,
    quiet: 9,
  },
  {
    alert: "SignInStorageFailing",
    series: {
      'sign_in_storage_duration_seconds_count{store="artifacts",operation="get",result="failure"}':
        "0+60x120",
    },
    fires: 3,
    quiet: 1,
  },
  {
    alert: "SignInStorageSlow",
    series: {
      'sign_in_storage_duration_seconds_bucket{store="storage",operation="get",result="success",le="0.01"}':
        "0+5000x120",
    },
    fires: 12,
    quiet: 9,
  },
  {
    alert: "SignInHashingRefused",
    series: { sign_in_hashing_refused_total: "0x20 4x120" },
    fires: 23,
    quiet: 20,
  },
  {
    alert: "SignInFailures",
    series: { 'sign_in_sign_ins_total{result="credentials"}': "0+80x120" },
    fires: 14,
    quiet: 5,
  },
  {
    alert: "SignInLimited",
    series: { 'sign_in_sign_ins_total{result="limited"}': "0x20 0+10x120" },
    fires: 40,
    quiet: 25,
  },
  {
    alert: "SignInClientErrors",
    series: { 'sign_in_token_errors_total{error="invalid_client",grant_type="password"}': "0x20 0+3x120" },
    fires: 40,
    quiet: 24,
  },
  {
    alert: "SignInDeletionNotDelivered",
    // Time begins at 0 there: stored a day before the 10th minute.
    series: { 'sign_in_deletion_oldest_timestamp_seconds{state="waiting"}': "-85800x120" },
    fires: 12,
    quiet: 9,
  },
  {
    alert: "SignInDeletionParked",
    series: { 'sign_in_deletion_oldest_timestamp_seconds{state="parked"}': "_x9 60x120" },
    fires: 11,
    quiet: 8,
  },
  {
    alert: "SignInDeliveriesParked",
    series: {
      'sign_in_deliveries{receiver="service:1",state="parked"}': "0x9 2x120",
      // The same, read by another process.
      'sign_in_deliveries{receiver="service:1",state="parked",instance="b"}': "0x9 2x120",
      'sign_in_deliveries{receiver="group:a",state="parked"}': "0x9 1x120",
    },
    fires: 16,
    quiet: 14,
    count: 2,
  },
  {
    alert: "SignInDeliveriesLate",
    series: { 'sign_in_delivery_oldest_timestamp_seconds{receiver="service:1"}': "60x120" },
    fires: 70,
    quiet: 60,
  },
  {
    alert: "SignInReceiverPaused",
    series: { 'sign_in_receivers_stopped{receiver="service:1",state="paused"}': "1x120" },
    fires: 60,
    quiet: 59,
  },
  {
    alert: "SignInReceiverCircuitOpen",
    series: { 'sign_in_receivers_stopped{receiver="service:1",state="circuit_open"}': "1x120" },
    fires: 15,
    quiet: 14,
  },
  {
    alert: "SignInBackchannelFailing",
    series: { 'sign_in_backchannel_logouts_total{result="failed",reason="timeout"}': "0x20 1x120" },
    fires: 22,
    quiet: 20,
  },
  {
    alert: "SignInMailLate",
    series: { sign_in_mail_oldest_timestamp_seconds: "60x120", sign_in_mail_outbox: "1x120" },
    fires: 23,
    quiet: 20,
  },
  {
    alert: "SignInMailFailing",
    series: { 'sign_in_mails_total{kind="password-changed",result="failed"}': "0x20 0+1x120" },
    fires: 60,
    quiet: 25,
  },
  {
    alert: "SignInBusy",
    series: { 'nodejs_eventloop_lag_p99_seconds{job="sign-in-service",instance="a"}': "0.9x120" },
    fires: 10,
    quiet: 9,
  },
  {
    alert: "SignInClockWrong",
    series: { 'sign_in_clock_difference_seconds{store="storage",instance="b"}': "0x9 -61x120" },
    fires: 12,
    quiet: 10,
  },
  {
    alert: "SignInClockDrifts",
    series: { 'sign_in_clock_difference_seconds{store="artifacts",instance="b"}': "0x9 6x120" },
    fires: 16,
    quiet: 14,
  },
  {
    alert: "SignInLogLost",
    series: { 'sign_in_log_lines_dropped_total{instance="a"}': "0x20 4x120" },
    fires: 22,
    quiet: 20,
  },
  {
    alert: "SignInQueueLost",
    series: { 'sign_in_queue_up{instance="a"}': "1x20 0x120" },
    fires: 22,
    quiet: 20,
  },
  {
    alert: "SignInLimits",
    series: { 'sign_in_limit_refusals_total{limit="interactions"}': "0x20 0+30x120" },
    fires: 30,
    quiet: 21,
  },
  {
    alert: "SignInInvalidGrants",
    series: {
      'sign_in_token_errors_total{error="invalid_grant",grant_type="refresh_token"}': "0x20 0+500x120",
    },
    fires: 26,
    quiet: 20,
  },
  {
    alert: "SignInArtifactsLost",
    // The 20th minute. Two servers report the same loss.
    series: {
      'sign_in_artifacts_lost_timestamp_seconds{instance="a"}': "0x19 1200x120",
      'sign_in_artifacts_lost_timestamp_seconds{instance="b"}': "0x20 1200x120",
    },
    fires: 20,
    quiet: 19,
  },
  {
    alert: "SignInReloadRefused",
    series: { 'sign_in_reloads_total{result="refused",instance="a"}': "0x20 1x120" },
    fires: 22,
    quiet: 20,
  },
  {
    alert: "SignInConfigurationsDiffer",
    series: { 'sign_in_process_info{role="server",version="1",configuration="b",instance="b"}': "1x120" },
    fires: 31,
    quiet: 29,
  },
  {
    alert: "SignInPoolFull",
    series: { 'sign_in_pool_connections{store="storage",state="waiting",instance="b"}': "0x20 40x120" },
    fires: 27,
    quiet: 24,
  },
  {
    alert: "SignInAuditLost",
    series: { 'sign_in_audit_records_lost_total{instance="a"}': "0x20 3x120" },
    fires: 22,
    quiet: 20,
  },
  {
    alert: "SignInAdministrationRefused",
    series: { 'sign_in_administration_responses_total{surface="rest",status="401"}': "0x20 0+10x120" },
    fires: 30,
    quiet: 22,
  },
  {
    alert: "SignInAdministrationLimited",
    series: { 'sign_in_limit_refusals_total{limit="administration.accounts"}': "0x20 1x120" },
    fires: 22,
    quiet: 20,
  },
  {
    alert: "SignInAdministrationTokensEnd",
    series: {
      sign_in_administration_tokens_ending: "0x9 2x120",
      // The same, read by another process.
      'sign_in_administration_tokens_ending{instance="b"}': "0x9 2x120",
    },
    fires: 71,
    quiet: 65,
  },
  {
    alert: "SignInKeyOld",
    series: { 'sign_in_signing_key_created_timestamp_seconds{alg="RS256"}': "-34560060x120" },
    fires: 63,
    quiet: 50,
  },
];
