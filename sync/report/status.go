package report

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"resyncd/store"
	"resyncd/sync/coverage"
)

// SourceStatus is one Source in `status --json`.
type SourceStatus struct {
	Name   string `json:"name"`
	URL    string `json:"url"`
	Paused bool   `json:"paused"`
	// Problem is why the Source as a whole cannot be worked on or read.
	Problem *string     `json:"problem"`
	Cause   string      `json:"-"` // of Problem (store.Set.Cause)
	Unread  bool        `json:"-"` // nothing of it was found yet
	Sets    []SetStatus `json:"sets"`
}

// InStep reports whether all sets are, and that there are any.
func (s *SourceStatus) InStep() bool {
	behind := func(set SetStatus) bool { return !set.InStep }
	return s.Problem == nil && len(s.Sets) > 0 && !slices.ContainsFunc(s.Sets, behind)
}

// MarshalJSON implements json.Marshaler.
func (s SourceStatus) MarshalJSON() ([]byte, error) {
	type object SourceStatus // without this method
	return json.Marshal(struct {
		object
		InStep bool `json:"in_step"`
	}{object(s), s.InStep()})
}

// SetStatus is one set in `status --json`.
type SetStatus struct {
	ID             int64           `json:"id"`
	CapabilityList string          `json:"capability_list"`
	Position       Time            `json:"position"`
	Proven         Time            `json:"proven_position"`
	Resources      int64           `json:"resources"`
	Bytes          int64           `json:"bytes"`
	Owed           int64           `json:"owed"`
	Held           int64           `json:"held"`
	Refused        int64           `json:"refused"`
	Baselines      int64           `json:"baselines"`
	InStep         bool            `json:"in_step"`
	Problem        *string         `json:"problem"`
	Cause          string          `json:"-"` // as SourceStatus
	Gaps           []GapStatus     `json:"gaps"`
	Channels       []ChannelStatus `json:"channels"`
	LastPull       Time            `json:"last_pull"`
	NextPull       Time            `json:"next_pull"`
}

// GapStatus is one gap in `status --json`.
type GapStatus struct {
	From     Time    `json:"from"`
	Until    Time    `json:"until"`
	State    string  `json:"state"`
	ClosedBy *string `json:"closed_by"`
	// Found, Ended are local.
	Found, Ended Time `json:"-"`
}

// ChannelStatus is one channel at one hub in `status --json`. It names no token and no secret (P10).
type ChannelStatus struct {
	Kind         string         `json:"kind"`
	Topic        string         `json:"topic"`
	Hub          string         `json:"hub"`
	State        string         `json:"state"`
	LeaseSeconds *int64         `json:"lease_seconds"`
	VerifiedAt   Time           `json:"verified_at"`
	RenewAt      Time           `json:"renew_at"` // without a lease: when the hub is asked next
	ExpiresAt    Time           `json:"expires_at"`
	LastDelivery Time           `json:"last_delivery"`
	Delivered    int64          `json:"delivered"`
	Duplicates   int64          `json:"duplicates"`
	Rejected     int64          `json:"rejected"`
	RejectedBy   RejectedStatus `json:"rejected_by"`
	PushMisses   int64          `json:"push_misses"`
	Reason       *string        `json:"reason"`
	Cause        string         `json:"-"` // as SourceStatus, of Reason
}

// Live reports that the channel has a lease.
func (c *ChannelStatus) Live() bool {
	return c.State == string(store.SubActive) || c.State == string(store.SubRenewing)
}

// RejectedStatus counts deliveries that were refused, by reason.
type RejectedStatus struct {
	Signature int64 `json:"signature"`
	TooLarge  int64 `json:"too_large"`
	Malformed int64 `json:"malformed"`
}

// Channel is a subscription as users see it.
func Channel(s *store.Subscription) ChannelStatus {
	c := ChannelStatus{
		Kind: string(s.Kind), Topic: s.Topic, Hub: s.Hub, State: string(s.State), VerifiedAt: TimeOf(s.Verified),
		RenewAt: TimeOf(s.Renew), ExpiresAt: TimeOf(s.Expires), LastDelivery: TimeOf(s.LastDelivery),
		Delivered: s.Delivered, Duplicates: s.Duplicates, PushMisses: s.PushMisses,
		Reason: textOf(s.Reason), Cause: s.Cause,
		Rejected: s.RejectedSignature + s.RejectedTooLarge + s.RejectedMalformed,
		RejectedBy: RejectedStatus{
			Signature: s.RejectedSignature, TooLarge: s.RejectedTooLarge, Malformed: s.RejectedMalformed,
		},
	}
	if !s.Live() {
		c.RenewAt = TimeOf(s.Next)
	}
	if s.Granted > 0 {
		granted := s.Granted
		c.LeaseSeconds = &granted
	}
	return c
}

// Expectation is what a Source is held to beside what its rows say.
type Expectation struct {
	Now time.Time
	// Next is when a pull is due after one at a given time; nil where nobody pulls by schedule.
	Next func(time.Time) time.Time
	// Push takes "in step" from a set without an active channel (`push: required`).
	Push bool
}

// pullSlack is how late a pull may be at least before its set counts as stale.
const pullSlack = 30 * time.Second

// Expect fills in when each set is pulled next, and takes "in step" from sets whose last pull or push is older than the
// schedule allows (coverage.md 3).
func (s *SourceStatus) Expect(e Expectation) {
	for i := range s.Sets {
		set := &s.Sets[i]
		live, last := set.pushed()
		if e.Push && !live {
			set.InStep = false
		}
		if e.Next == nil || set.LastPull.IsZero() {
			continue
		}
		due := e.Next(set.LastPull.Time)
		if due.IsZero() {
			continue
		}
		if !s.Paused {
			set.NextPull = TimeOf(store.MicrosOf(due))
		}
		if set.LastPull.After(last) {
			last = set.LastPull.Time
		}
		if e.Now.After(latest(e.Next, last)) {
			set.InStep = false
		}
	}
}

// Trouble records why the Source cannot be worked on, if so: none of it is in step then.
func (s *SourceStatus) Trouble(problem string) {
	if problem == "" {
		return
	}
	s.Problem, s.Cause, s.Unread = &problem, "", false
	for i := range s.Sets {
		s.Sets[i].InStep = false
	}
}

// latest is how long the last news may be believed: a quarter of the pause beyond the next pull.
func latest(next func(time.Time) time.Time, last time.Time) time.Time {
	due := next(last)
	return due.Add(max(pullSlack, next(due).Sub(due)/4))
}

// StatusOf reads how a Source stands; it needs no claim.
func StatusOf(ctx context.Context, st store.Store, src *store.Source) (SourceStatus, error) {
	out := SourceStatus{Name: src.Name, URL: src.URL, Paused: src.Paused, Sets: []SetStatus{}}
	sets, err := st.Sets(ctx, src.ID)
	if err != nil {
		return out, err
	}
	if len(sets) == 0 {
		said, cause, err := Unread(ctx, st, src.ID)
		if said != "" {
			out.Problem, out.Cause, out.Unread = new(fmt.Sprintf("%s: %s", ErrNothingYet, said)), cause, true
		}
		return out, err
	}
	subs, err := st.Subscriptions(ctx, src.ID, false)
	if err != nil {
		return out, err
	}
	for i := range sets {
		s, err := setStatus(ctx, st, &sets[i])
		if err != nil {
			return out, err
		}
		for j := range subs {
			if subs[j].SetID == s.ID {
				s.Channels = append(s.Channels, Channel(&subs[j]))
			}
		}
		out.Sets = append(out.Sets, s)
	}
	return out, nil
}

// pushed reports whether a hub holds a lease for changes of the set, and when one last told of any.
func (s *SetStatus) pushed() (live bool, last time.Time) {
	for i := range s.Channels {
		c := &s.Channels[i]
		if c.Kind == string(store.ChannelFramework) {
			continue
		}
		live = live || c.Live()
		if c.LastDelivery.After(last) {
			last = c.LastDelivery.Time
		}
	}
	return live, last
}

func setStatus(ctx context.Context, st store.Store, set *store.Set) (SetStatus, error) {
	cover := coverage.Coverage{Floor: set.Floor, Proven: set.Proven, Joint: set.Joint}
	out := SetStatus{
		ID: set.ID, CapabilityList: set.CapabilityList,
		Position: TimeOf(cover.Position()), Proven: TimeOf(cover.ProvenPosition()),
		Resources: set.Resources, Bytes: set.Bytes, Baselines: set.Baselines,
		InStep: set.InStep, LastPull: TimeOf(set.LastPull),
		Gaps: []GapStatus{}, Channels: []ChannelStatus{},
	}
	if set.Problem != "" {
		out.Problem, out.Cause = &set.Problem, set.Cause
	}
	counts, err := st.Counts(ctx, set.ID)
	if err != nil {
		return out, err
	}
	out.Owed, out.Held, out.Refused = counts.Owed, counts.Held, counts.Refused
	gaps, err := st.Gaps(ctx, set.ID)
	if err != nil {
		return out, err
	}
	for _, g := range gaps {
		out.Gaps = append(out.Gaps, GapStatus{
			From: TimeOf(g.From), Until: TimeOf(g.Until), State: string(g.State), ClosedBy: textOf(g.ClosedBy),
			Found: TimeOf(g.Found), Ended: TimeOf(g.Ended),
		})
		out.InStep = out.InStep && !g.State.Open()
	}
	out.InStep = out.InStep && counts.Owed == 0 && counts.Held == 0
	return out, nil
}

// ErrNothingYet: no set of a Source is known that could say why.
var ErrNothingYet = errors.New("nothing usable of the Source was found so far")

// UnreadDocument names, among the documents of a Source, why nothing was found.
const UnreadDocument = "unread"

// Unread is why nothing of a Source was found, with its cause.
func Unread(ctx context.Context, st store.Documents, source int64) (said, cause string, err error) {
	doc, err := st.Document(ctx, source, UnreadDocument)
	if errors.Is(err, store.ErrNotFound) {
		return "", "", nil
	}
	said, cause = store.CutCause(string(doc.Body))
	return said, cause, err
}
