package hub

// Action is what becomes of a delivery.
type Action int

// The actions.
const (
	Deliver Action = iota
	Drop           // the hub believes that it was delivered
	Double
)

// Delivery is one notification on its way to one subscriber.
type Delivery struct {
	Topic        string
	Subscription int64
	Number       int64 // of the notification within its topic
	Attempt      int   // 0 for the first
	Body         []byte
}
