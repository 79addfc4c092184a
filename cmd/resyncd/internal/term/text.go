package term

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"

	"resyncd/store"
	syncengine "resyncd/sync"
	"resyncd/sync/report"
)

// Text is a text that may be absent.
func Text(s *string) string {
	if s == nil {
		return "-"
	}
	return *s
}

// Bytes writes a number of bytes for people.
func Bytes(n int64) string {
	if n < 1024 {
		return fmt.Sprintf("%d B", n)
	}
	f, units := float64(n)/1024, "KMGTPE"
	for f >= 1024 && len(units) > 1 {
		f, units = f/1024, units[1:]
	}
	return fmt.Sprintf("%.1f %ciB", f, units[0])
}

// OneLine makes text of a peer safe to print.
func OneLine(s string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, s)
}

// Why is the reason of a state, where there is one.
func Why(l *report.Listing) string {
	s := ""
	if l.Reason != nil {
		s = "  # " + *l.Reason
	}
	if l.Attempts != nil && !l.NextTry.IsZero() {
		s += fmt.Sprintf(" (attempts %d, next try %s)", *l.Attempts, l.NextTry)
	}
	return s
}

// Edit tells an edit of a record on one line.
func Edit(e *report.EditLine) string {
	var b strings.Builder
	fmt.Fprintf(&b, "by %s:", Text(e.Author))
	for _, name := range slices.Sorted(maps.Keys(e.Fields)) {
		if e.Fields[name] == "" {
			fmt.Fprintf(&b, " %s erased", name)
		} else {
			fmt.Fprintf(&b, " %s=%q", name, e.Fields[name])
		}
	}
	if len(e.Odd) > 0 {
		fmt.Fprintf(&b, "  # odd: %s", strings.Join(e.Odd, "; "))
	}
	return b.String()
}

// Approved says what an approval did.
func Approved(done *syncengine.Approved) string {
	verb := "removed"
	if done.Rejected {
		verb = "kept until the list changes"
	}
	return fmt.Sprintf("%d held resources %s", done.Resources, verb)
}

// Restored says what came back.
func Restored(t *store.Trashed) string { return "restored " + t.Key }

// LeaseLeft says what a forgotten Source leaves at a hub.
func LeaseLeft(s *store.Subscription) string {
	return fmt.Sprintf("%s is still subscribed at %s, which delivers in vain until %s", URL(s.Topic), URL(s.Hub),
		report.TimeOf(s.Expires))
}
