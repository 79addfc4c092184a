package health

import (
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"resyncd/cmd/resyncd/internal/config"
	"resyncd/cmd/resyncd/internal/console"
	"resyncd/destination/fetch"
	"resyncd/store"
	"resyncd/sync/report"
)

// aboutPush tells of the channels by which a set's changes should come. Without one the Source is only pulled, which
// costs freshness and nothing else (P9).
func aboutPush(s *Standing, set *report.SetStatus) []console.Finding {
	c := Leading(set.Channels)
	f := console.Finding{Level: console.Warn, State: "no push"}
	if s.Push == config.PushRequired {
		f.State = "no channel"
	}
	pulled := "pulled by schedule only, every " + console.Span(s.Poll)
	switch {
	case s.Push == config.PushOff:
		return nil
	case c == nil && s.Push == config.PushRequired:
		f.Why = "Push is required, and the Source offers no hub: " + pulled + ". Write push: auto if that is fine."
	case c == nil:
		return []console.Finding{finding(console.Good, "", "It offers no hub: "+pulled+".")}
	case c.Live():
		return aboutLive(s, set)
	case c.State == string(store.SubOff):
		if s.Push != config.PushRequired {
			return []console.Finding{finding(console.Good, "", "Its channel was switched off by an operator: "+pulled+
				"; Renew brings it back.")}
		}
		f.Why = "Push is required, and its channel was switched off by an operator: Renew brings it back."
	case c.State == string(store.SubDenied):
		f.State = "hub refused"
		f.Why = fmt.Sprintf("The hub refused: %s. The Source is %s; Renew asks again.", reasonFor(c), pulled)
	case c.State == string(store.SubLapsed):
		f.Why = fmt.Sprintf("The lease ended: %s.%s The hub is asked again; the Source is %s.", reasonFor(c),
			hubHints[c.Cause], pulled)
	case c.State == string(store.SubFailed):
		f.Why = fmt.Sprintf("Subscribing at the hub fails: %s.%s It is asked again %s, Renew asks at once; the "+
			"Source is %s.", reasonFor(c), hubHints[c.Cause], s.when(c.RenewAt.Time), pulled)
	case c.Reason != nil && *c.Reason != "":
		f.Why = fmt.Sprintf("The hub has not confirmed: %s. The Source is %s.", reasonFor(c), pulled)
	default: // wanted, requesting, pending: moments, as a rule
		f.Level, f.State, f.Why = console.Busy, "subscribing", "The hub is being asked to tell of changes."
	}
	if s.Deaf && f.Level == console.Warn {
		f.Why += " Hubs on other machines cannot reach this one: callback.base_url leads to this machine only."
	}
	return []console.Finding{f}
}

// aboutLive tells what is wrong with a channel that has a lease.
func aboutLive(s *Standing, set *report.SetStatus) (found []console.Finding) {
	if s.Suspect[set.ID] {
		found = append(found, finding(console.Warn, "hub is silent",
			"Pulls found changes that the hub did not tell of: it is asked anew, and the Source is pulled more often."))
	}
	if why := map[string]string{
		"signature": "Notifications come with a wrong signature or none, so they are not believed, and pulls stand " +
			"in. Renew agrees on a secret anew; a hub that cannot sign needs secret: off.",
		"too_large": "Notifications are larger than callback.max_body, so pulls stand in. Raise it if they are wanted.",
		"malformed": "Notifications cannot be read; each only makes the Source be pulled. The hub's operator has " +
			"to mend that.",
		"busy": "Hubs were told to come again: the inbox is full, or the state database cannot be written.",
	}[s.Rejected]; why != "" {
		found = append(found, finding(console.Warn, "push rejected", why))
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

// hubHints are what an operator can do about a hub that does not take a subscription, by the cause.
var hubHints = map[string]string{
	fetch.CauseConnection:     " Nothing listens at its address: the hub is down, or `hub` names another port.",
	fetch.CauseHost:           " Its name is not known: the Source, or `hub`, names a wrong one.",
	fetch.CauseStatus + "404": " What is named as the hub is none: check `hub`, or tell the Source's publisher.",
	fetch.CauseStatus + "405": " What is named as the hub is none: check `hub`, or tell the Source's publisher.",
}

// reasonFor is a channel's reason as part of a sentence.
func reasonFor(c *report.ChannelStatus) string {
	if c.Reason == nil || *c.Reason == "" {
		return "it gave no reason"
	}
	return strings.TrimRight(Clipped(*c.Reason), ".")
}

// count writes a number with its word.
func count(n int64, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// stampOf writes an instant for people.
func stampOf(t time.Time) string {
	if t.Year() < 1 || t.IsZero() { // all that was before
		return "an unknown time"
	}
	return t.UTC().Format("2006-01-02 15:04:05 UTC")
}

// when writes an instant near now, as the end of a sentence.
func (s *Standing) when(t time.Time) string {
	switch {
	case t.IsZero():
		return "soon"
	case t.UTC().Format(time.DateOnly) == s.Now.UTC().Format(time.DateOnly):
		return "at " + t.UTC().Format("15:04:05 UTC")
	}
	return "on " + stampOf(t)
}

// longestWhy is how many bytes of a text of somebody else are shown where it is part of a sentence.
const longestWhy = 400

// Clipped makes a text of others part of a line.
func Clipped(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	if len(text) <= longestWhy {
		return text
	}
	cut := longestWhy
	for !utf8.RuneStart(text[cut]) {
		cut--
	}
	return text[:cut] + "…"
}

// sentence begins a text as a sentence does, and leaves its end open. A URL or a name in lower case keeps it.
func sentence(text string) string {
	text = strings.TrimRight(Clipped(text), ".")
	first, size := utf8.DecodeRuneInString(text)
	if size == 0 {
		return text
	}
	if word, _, _ := strings.Cut(text, " "); strings.ContainsAny(word, "/:.") {
		return text
	}
	return string(unicode.ToUpper(first)) + text[size:]
}
