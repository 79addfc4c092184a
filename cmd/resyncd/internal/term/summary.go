package term

import (
	"fmt"
	"strings"

	syncengine "resyncd/sync"
)

// Summary tells a person what a run did with one set, and what to do next.
func Summary(label string, r *syncengine.Result) string {
	r = Result(r)
	var b strings.Builder
	fmt.Fprintf(&b, "%s  %s\n", r.Source, r.Set)
	if r.DryRun {
		would := r.Would
		if would == nil {
			would = &syncengine.Would{}
		}
		fmt.Fprintf(&b, "  dry run (%s): %d would be fetched (%s, as far as the Source tells lengths), %d deleted; "+
			"nothing was touched\n",
			r.Kind, would.Fetch, Bytes(would.Bytes), would.Delete)
	} else {
		fmt.Fprintf(&b, "  %s: %d fetched, %d unchanged, %d deleted, %d failed (%d requests, %s, %.1f s)\n",
			r.Kind, r.Fetched, r.Unchanged, r.Deleted, r.Failed, r.Requests, Bytes(r.Bytes), r.Seconds)
	}
	if r.Problem != "" {
		fmt.Fprintf(&b, "  problem: %s\n", r.Problem)
	}
	if r.DryRun {
		return b.String()
	}
	if r.GapsFound > 0 {
		fmt.Fprintf(&b, "  %d gaps found, %d closed\n", r.GapsFound, r.GapsClosed)
	}
	if r.Refused > 0 {
		fmt.Fprintf(&b, "  %d refused (outside scope or policy): resyncd ls --refused %s\n", r.Refused, label)
	}
	if r.Held > 0 {
		fmt.Fprintf(&b, "  %d removals held for you: resyncd ls --held %s, then resyncd approve %s\n", r.Held, label,
			label)
	}
	if r.Owed > 0 {
		fmt.Fprintf(&b, "  %d owed: resyncd ls --owed %s\n", r.Owed, label)
	}
	switch {
	case r.Unavailable:
		b.WriteString("  failed: no document of this set could be used\n")
	case r.InStep && r.Position != nil:
		fmt.Fprintf(&b, "  in step, up to %s\n", *r.Position)
	case r.InStep:
		b.WriteString("  in step\n")
	default:
		b.WriteString("  not in step\n")
	}
	return b.String()
}
