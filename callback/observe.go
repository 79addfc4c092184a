package callback

import "time"

// Observer receives events for metrics. Its functions may be nil and must not block.
type Observer struct {
	// Delivered: a notification, or a duplicate of one, is durable.
	Delivered func(sourceID int64, duplicate bool)
	// Rejected: a notification was refused, or kept as malformed. sourceID is 0 for unknown tokens.
	Rejected func(sourceID int64, reason string)
	// Acknowledged: a 2xx was sent d after the headers had come.
	Acknowledged func(sourceID int64, d time.Duration)
	// Failed: the state could not be read or written (F7); hubs come again.
	Failed func(err error)
}

// Reasons of Observer.Rejected.
const (
	ReasonSignature = "signature"
	ReasonTooLarge  = "too_large"
	ReasonMalformed = "malformed" // kept as a hint all the same (S-61)
	ReasonBusy      = "busy"      // answered 503
	ReasonBroken    = "broken"    // its body did not arrive, or too late
	ReasonGone      = "gone"      // for a subscription that has ended
	ReasonUnknown   = "unknown"   // for an unknown token
)

func (o Observer) withDefaults() Observer {
	if o.Delivered == nil {
		o.Delivered = func(int64, bool) {}
	}
	if o.Rejected == nil {
		o.Rejected = func(int64, string) {}
	}
	if o.Acknowledged == nil {
		o.Acknowledged = func(int64, time.Duration) {}
	}
	if o.Failed == nil {
		o.Failed = func(error) {}
	}
	return o
}
