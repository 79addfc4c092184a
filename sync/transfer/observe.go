package transfer

import "time"

// Observer gets reports on files. Functions may be nil; they must be quick and safe for concurrent use.
type Observer struct {
	// Fetched counts outcomes of fetches: fetched, unchanged, gone, refused, failed.
	Fetched func(result string, n int64)
	// Settled is called once an outcome is recorded.
	Settled func(Settled)
	// Removed counts removed files.
	Removed func(n int64)
	// Halted gets the reason when the mirror stops taking files (F6), nil when that is over.
	Halted func(err error)
}

// Settled is how the work on one resource ended.
type Settled struct {
	Result string
	Class  string // of a failure (store.Work.Class)
	Placed int64  // length of the placed file
	// Bytes that came, and the time until they were checked or failed; 0 without a request.
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

var results = [...]string{
	verdictCleared: "unchanged", verdictFetched: "fetched", verdictAdopted: "unchanged", verdictGone: "gone",
	verdictRefused: "refused", verdictThere: "unchanged", verdictFailed: "failed",
}
