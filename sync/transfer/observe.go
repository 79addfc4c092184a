package transfer

import "time"

// Observer hears what becomes of files. Functions may be nil; they must be quick and safe for concurrent use.
type Observer struct {
	// Fetched counts outcomes of fetches: fetched, unchanged, gone, refused, failed.
	Fetched func(result string, n int64)
	// Settled is told of each resource that was dealt with, once that is recorded.
	Settled func(Settled)
	// Removed counts files that went from the mirror.
	Removed func(n int64)
	// Halted is told when the mirror stops taking files, with the reason (F6), and with nil once it takes them again.
	Halted func(err error)
}

// Settled is how the work on one resource ended.
type Settled struct {
	Result string // as Observer.Fetched has it
	Class  string // of a failure (store.Work.Class), "" without one
	Placed int64  // length of the file that was placed, 0 without one
	// What was asked of the Source: Bytes that came, and Took, from the first request to bytes that were checked or to the
	// failure; 0: nothing was asked.
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

// settled tells of a group of outcomes that was recorded.
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
