package console

import "github.com/prometheus/client_golang/prometheus"

// Event is something that is counted.
type Event uint8

// The events.
const (
	Notifications Event = iota // by verdict
	Rejections                 // by reason
	Fetches                    // by result
	FetchedBytes
	FetchFailures // by reason
	Removals
	PushMisses
	Oddities
	Pulls        // by result
	PullProblems // by reason
	SkippedEntries
	DoubtfulDocuments // by reason
	GapsFound
	GapsEnded // by what
	LaggingLists
	HeldSweeps
	MirrorHalts    // by reason
	SourceFailures // by reason
	UncleanStarts
	JobFailures // by job
	ScrubFindings
	SubscriptionChanges // by state
	ShortLeases
	SuspectedHubs
	StateFailures // by reason; of no Source
	ClockJumps    // of no Source
)

type event struct {
	name, help string
	by         string // the second label, "" for none
	known      []string
	alone      bool // of no Source
	// watched are the values shown from 0 on where all would be too many; nil: all.
	watched []string
}

var events = [...]event{
	Notifications: {name: "resyncd_notifications_total", by: "verdict", known: []string{"next", "stale", "gap",
		"unknown"},
		help: "Notifications taken, by what their interval means for the position."},
	Rejections: {name: "resyncd_notifications_rejected_total", by: "reason", known: []string{"signature", "too_large",
		"malformed", "busy", "broken", "gone"},
		help: "Notifications not taken, by reason."},
	Fetches: {name: "resyncd_fetches_total", by: "result", known: []string{"fetched", "unchanged", "gone", "refused",
		"failed"},
		help: "Resources fetched, by result."},
	FetchedBytes: {name: "resyncd_fetched_bytes_total", help: "Bytes of resources that were transferred."},
	FetchFailures: {name: "resyncd_fetch_failures_total", watched: []string{"denied", "tls", "mismatch"}, by: "reason",
		known: []string{"transient", "throttled", "truncated", "gone", "denied", "rejected", "refused", "stalled",
			"too-large", "broken", "tls",
			"mismatch", "unproven", "no-room", "disk", "blocked", "no-content", "panic", "local", "canceled"},
		help: "Fetches that left a resource owed, by the class of the failure."},
	Removals: {name: "resyncd_removals_total", help: "Files that went from the mirror."},
	PushMisses: {name: "resyncd_push_misses_total", help: "Changes first seen by a pull although a channel " +
		"was active."},
	Oddities: {name: "resyncd_record_oddities_total",
		help: "Values of records that their format does not have; they are kept as they are."},
	Pulls: {name: "resyncd_pulls_total", by: "result", known: []string{"ok", "partial", "failed"},
		help: "Pulls of sets that ended; partial: something of it was not usable, failed: nothing was."},
	PullProblems: {name: "resyncd_pull_problems_total", watched: []string{"denied", "tls"}, by: "reason",
		known: []string{"transient", "throttled", "gone", "denied", "rejected", "refused", "stalled", "too-large",
			"broken", "tls", "disk", "document"},
		help: "What kept pulls from being whole, by its class; document: one that is not what it should be."},
	SkippedEntries: {name: "resyncd_entries_skipped_total",
		help: "Entries of documents and notifications that could not be read and were left out."},
	DoubtfulDocuments: {name: "resyncd_documents_doubtful_total", by: "reason", known: []string{"changed-while-read",
		"kept-copy"},
		help: "Documents that were not trusted in full."},
	GapsFound: {name: "resyncd_gaps_found_total", help: "Holes found in what was heard of the Source."},
	GapsEnded: {name: "resyncd_gaps_ended_total", by: "by", known: []string{"notification", "change-list", "archive",
		"baseline", "none", "unprovable"},
		help: "Holes that ended, by what closed them; none: it was no hole, unprovable: nobody can close it."},
	LaggingLists: {name: "resyncd_lists_lagging_total", help: "Times that a list did not hold yet what a " +
		"notification " +
		"had told of."},
	HeldSweeps: {name: "resyncd_sweeps_held_total", help: "Sweeps that the guard held for the operator."},
	MirrorHalts: {name: "resyncd_mirror_halts_total", by: "reason", known: []string{"full", "read-only", "io", "busy",
		"unmounted"},
		help: "Times that the mirror stopped taking files."},
	SourceFailures: {name: "resyncd_source_failures_total", watched: []string{"panic", "fenced"}, by: "reason",
		known: []string{"held", "fenced", "unmounted", "full", "read-only", "io", "busy", "state", "panic", "other"},
		help:  "Times that a Source could not be worked on."},
	UncleanStarts: {name: "resyncd_unclean_starts_total", help: "Times that a Source was taken up after an end that " +
		"was not orderly."},
	JobFailures: {name: "resyncd_job_failures_total", watched: []string{"pull"}, by: "job", known: []string{"notify",
		"gap", "framework", "pull", "conclude", "scrub", "request"},
		help: "Slices of work that failed and are tried again."},
	ScrubFindings: {name: "resyncd_scrub_findings_total", help: "Mirror files that were no longer what they were; " +
		"they are fetched anew."},
	SubscriptionChanges: {name: "resyncd_subscription_changes_total", watched: []string{"denied", "lapsed"},
		by: "state",
		known: []string{"wanted", "requesting", "pending", "active", "renewing", "lapsed", "denied", "failed",
			"unsubscribing", "off", "gone"},
		help: "Subscriptions that came to a state."},
	ShortLeases: {name: "resyncd_short_leases_total", help: "Leases that were granted for less than a minute."},
	SuspectedHubs: {name: "resyncd_hubs_suspected_total", help: "Times that a hub was asked anew because it did not " +
		"tell of changes."},
	StateFailures: {name: "resyncd_state_failures_total", by: "reason", known: []string{"full", "corrupt", "other"},
		alone: true,
		help:  "Failures to read or write the state database."},
	ClockJumps: {name: "resyncd_clock_jumps_total", alone: true, help: "Times that the wall clock jumped, or the " +
		"machine slept."},
}

func (e *event) labels() []string {
	var out []string
	if !e.alone {
		out = append(out, label)
	}
	if e.by != "" {
		out = append(out, e.by)
	}
	return out
}

func (e *event) values(source, value string) []string {
	var out []string
	if !e.alone {
		out = append(out, clean(source))
	}
	if e.by != "" {
		out = append(out, clean(value))
	}
	return out
}

func (e *event) begin(v *prometheus.CounterVec, source ...string) {
	if e.by == "" {
		v.WithLabelValues(source...)
		return
	}
	watched := e.watched
	if watched == nil {
		watched = e.known
	}
	for _, value := range watched {
		v.WithLabelValues(append(source[:len(source):len(source)], value)...)
	}
}

// Duration is something whose time is taken.
type Duration uint8

// The durations.
const (
	PushLatency Duration = iota
	FetchTime
	Acknowledgement
)

var durations = [...]struct {
	name, help string
	buckets    []float64
}{
	PushLatency: {"resyncd_push_latency_seconds", "Time from the receipt of a notification to what it announced " +
		"being in place.",
		[]float64{.001, .005, .01, .025, .05, .1, .25, .5, 1, 5, 30, 300, 3600}},
	FetchTime: {"resyncd_fetch_duration_seconds", "Time that a resource took from the first request to " +
		"checked bytes, " +
		"or to its failure.",
		[]float64{.005, .025, .1, .25, .5, 1, 2.5, 10, 60, 600}},
	Acknowledgement: {"resyncd_acknowledgement_duration_seconds",
		"Time from a notification's headers to the 2xx that " +
			"says that it is durable.",
		[]float64{.001, .005, .01, .025, .05, .1, .25, 1, 5, 15}},
}
