package callback

import "time"

// Observer is told what happens, for metrics. Its functions may be nil, are called from many goroutines and must not
// block.
type Observer struct {
	// Notification: one became durable. verdict is next, stale, gap or unknown.
	Notification func(sourceID int64, verdict string)
	// Rejected: one was not taken, for one of the reasons below, or was taken as malformed. sourceID is 0 for tokens that
	// nobody knows.
	Rejected func(sourceID int64, reason string)
	// Acknowledged: a 2xx was given d after the notification's headers had come.
	Acknowledged func(sourceID int64, d time.Duration)
	// Failed: the state could not be read or written, as when its disk is full (F7); hubs are told to come again.
	Failed func(err error)
}

// Reasons of Observer.Rejected.
const (
	ReasonSignature = "signature"
	ReasonTooLarge  = "too_large"
	ReasonMalformed = "malformed" // kept as a hint all the same (S-61)
	ReasonBusy      = "busy"      // answered 503
	ReasonBroken    = "broken"    // its body did not come, or not in time
	ReasonGone      = "gone"      // for a subscription that has ended
	ReasonUnknown   = "unknown"   // for none that ever was
)

func (o *Observer) notification(sourceID int64, v Verdict) {
	if o.Notification != nil {
		o.Notification(sourceID, string(v))
	}
}

func (o *Observer) rejected(sourceID int64, reason string) {
	if o.Rejected != nil {
		o.Rejected(sourceID, reason)
	}
}

func (o *Observer) acknowledged(sourceID int64, d time.Duration) {
	if o.Acknowledged != nil {
		o.Acknowledged(sourceID, d)
	}
}

func (o *Observer) failed(err error) {
	if o.Failed != nil {
		o.Failed(err)
	}
}
