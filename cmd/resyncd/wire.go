package main

import (
	"encoding/json"
	"fmt"
	"time"

	syncengine "resyncd/sync"
)

// The commands that a request to the daemon may carry (store.Request.Command).
const (
	askSync    = "sync"
	askApprove = "approve"
	askRestore = "restore"
	askRenew   = "renew"
	askCancel  = "cancel"
	askPause   = "pause"
	askResume  = "resume"
	askForget  = "forget"
)

// askArgs are the options of a request, of all commands.
type askArgs struct {
	Full       bool          `json:"full,omitempty"`        // sync
	RetryFor   time.Duration `json:"retry_for,omitempty"`   // sync
	Reject     bool          `json:"reject,omitempty"`      // approve
	URI        string        `json:"uri,omitempty"`         // restore
	Topic      string        `json:"topic,omitempty"`       // renew, cancel; "": all of the Source
	WithMirror bool          `json:"with_mirror,omitempty"` // forget
}

func (a askArgs) encode() []byte {
	b, err := json.Marshal(a)
	if err != nil { // strings, numbers and flags only
		return []byte("{}")
	}
	return b
}

// setLine is one set's result on its way from the daemon to the command: what Result keeps out of its JSON goes beside it.
type setLine struct {
	Result      syncengine.Result `json:"result"`
	Problem     string            `json:"problem"`
	Unavailable bool              `json:"unavailable"`
}

func encodeSet(r *syncengine.Result) (string, error) {
	b, err := json.Marshal(setLine{Result: *r, Problem: r.Problem, Unavailable: r.Unavailable})
	return string(b), err
}

func decodeSet(line string) (syncengine.Result, error) {
	var l setLine
	if err := json.Unmarshal([]byte(line), &l); err != nil {
		return l.Result, fmt.Errorf("read the daemon's answer: %w", err)
	}
	l.Result.Problem, l.Result.Unavailable = l.Problem, l.Unavailable
	return l.Result, nil
}

// workDone is the state of a request's work, as sums.
type workDone struct {
	Listed  int64 `json:"listed"`
	Done    int64 `json:"done"`
	Failed  int64 `json:"failed"`
	Deleted int64 `json:"deleted"`
	Bytes   int64 `json:"bytes"`
}
