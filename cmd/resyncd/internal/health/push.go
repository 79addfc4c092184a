package health

import (
	"slices"

	"resyncd/cmd/resyncd/internal/config"
	"resyncd/cmd/resyncd/internal/console"
	"resyncd/store"
	"resyncd/sync/report"
)

// aboutPush tells of the channels by which a set's changes should come. Without one the Source is only pulled, which
// costs freshness and nothing else (P9).
func aboutPush(s *Standing, set *report.SetStatus) []console.Finding {
	var f console.Finding
	pulled := "pulled by schedule only, every " + console.Span(s.Poll)
	required := s.Push == config.PushRequired
	switch c := Leading(set.Channels); {
	case s.Push == config.PushOff:
		return nil
	case c == nil && required:
		f = say("push required", pulled)
	case c == nil:
		f = say("no hub", pulled)
	case c.Live():
		return aboutLive(s, set)
	case c.State == string(store.SubOff) && !required:
		f = say("switched off", pulled)
	case c.State == string(store.SubOff):
		f = say("switched off though required")
	case c.State == string(store.SubDenied):
		f = say("denied", reasonFor(c), pulled)
	case c.State == string(store.SubLapsed):
		f = say("lapsed", reasonFor(c), spaced(words().Hubs[c.Cause]), pulled)
	case c.State == string(store.SubFailed):
		f = say("failed", reasonFor(c), spaced(words().Hubs[c.Cause]), s.when(c.RenewAt.Time), pulled)
	case c.Reason != nil && *c.Reason != "":
		f = say("unconfirmed", reasonFor(c), pulled)
	default: // wanted, requesting, pending: moments, as a rule
		f = say("subscribing")
	}
	if required && f.State == "no push" {
		f.State = "no channel"
	}
	if s.Deaf && f.Level == console.Warn {
		f.Why += " Hubs on other machines cannot reach this one: callback.base_url leads to this machine only."
	}
	return []console.Finding{f}
}

// aboutLive tells what is wrong with a channel that has a lease.
func aboutLive(s *Standing, set *report.SetStatus) (found []console.Finding) {
	if slices.Contains(s.Suspect, set.ID) {
		found = append(found, say("suspect"))
	}
	if why := words().Rejections[s.Rejected]; why != "" {
		found = append(found, say("rejected", why))
	}
	return found
}

// Leading is the channel that says how a set is told of its changes: one with a lease, else the one that is furthest.
func Leading(channels []report.ChannelStatus) (best *report.ChannelStatus) {
	rank := func(c *report.ChannelStatus) int {
		switch store.SubscriptionState(c.State) {
		case store.SubActive:
			return 9
		case store.SubRenewing:
			return 8
		case store.SubPending, store.SubRequesting, store.SubWanted:
			return 5
		case store.SubOff, store.SubUnsubscribing:
			return 1
		}
		return 7 // what went wrong
	}
	for i := range channels {
		c := &channels[i]
		if c.Kind != string(store.ChannelFramework) && (best == nil || rank(c) > rank(best)) {
			best = c
		}
	}
	return best
}
