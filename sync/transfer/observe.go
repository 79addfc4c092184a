package transfer

import "time"

// Observer gets reports about files. Functions may be nil; they must be quick and safe for concurrent use.
type Observer struct {
	// Fetched counts outcomes of fetches: fetched, unchanged, gone, refused, failed.
	Fetched func(result string, n int64)
	// Settled is called for each resource once its outcome is recorded.
	Settled func(Settled)
	// Removed counts files removed from the mirror.
	Removed func(n int64)
	// Halted is called with the reason when the mirror stops taking files (F6), and with nil once it takes them again.
	Halted func(err error)
}

// Settled is how the work on one resource ended.
type Settled struct {
	Result string // as in Observer.Fetched
	Class  string // of a failure (store.Work.Class), "" without one
	Placed int64  // length of the file that was placed, 0 without one
	// Bytes came from the Source in Took, the time from the first request to checked bytes or to the failure; both are
	// 0 without a request.
	Bytes int64
	Took  time.Duration
}

func (o *Observer) removed(n int64) {
	if o.Removed != nil && n > 0 {
		o.Removed(n)
	}
}

func (o *Observer) halted(err error) {
	if o.Halted != nil {
		o.Halted(err)
	}
}

// settled reports a group of recorded outcomes.
func (o *Observer) settled(group []*outcome) {
	if o.Fetched != nil {
		n := map[string]int64{}
		for _, out := range group {
			n[results[out.verdict]]++
		}
		for result, count := range n {
			o.Fetched(result, count)
		}
	}
	if o.Settled == nil {
		return
	}
	for _, out := range group {
		told := Settled{Result: results[out.verdict], Class: out.failure.class, Bytes: out.bytes, Took: out.took}
		if out.verdict == verdictFetched {
			told.Placed = out.have.Length
		}
		o.Settled(told)
	}
}

// results names the verdicts for metrics.
var results = [...]string{
	verdictCleared: "unchanged", verdictFetched: "fetched", verdictAdopted: "unchanged", verdictGone: "gone",
	verdictRefused: "refused", verdictThere: "unchanged", verdictFailed: "failed",
}
