package control

import (
	"encoding/json"
	"fmt"
	"time"

	syncengine "resyncd/sync"
)

// The commands that a request to the daemon may carry (store.Request.Command).
const (
	AskSync    = "sync"
	AskApprove = "approve"
	AskRestore = "restore"
	AskRenew   = "renew"
	AskCancel  = "cancel"
	AskPause   = "pause"
	AskResume  = "resume"
	AskForget  = "forget"
)

// Args are the options of a request, of all commands.
type Args struct {
	Full       bool          `json:"full,omitempty"`        // sync
	RetryFor   time.Duration `json:"retry_for,omitempty"`   // sync
	Reject     bool          `json:"reject,omitempty"`      // approve
	URI        string        `json:"uri,omitempty"`         // restore
	Topic      string        `json:"topic,omitempty"`       // renew, cancel; "": all of the Source
	WithMirror bool          `json:"with_mirror,omitempty"` // forget
}

// encode writes the options of a request.
func (a Args) encode() []byte {
	b, err := json.Marshal(a)
	if err != nil { // strings, numbers and flags only
		return []byte("{}")
	}
	return b
}

// DecodeArgs reads the options of a request; none are fine.
func DecodeArgs(text []byte) (a Args, err error) {
	if len(text) == 0 {
		return a, nil
	}
	if err := json.Unmarshal(text, &a); err != nil {
		return a, fmt.Errorf("the daemon cannot read the request: %w", err)
	}
	return a, nil
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
