package callback

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"resyncd/destination/gate"
	"resyncd/destination/rsdoc"
	"resyncd/destination/websub"
	"resyncd/store"
)

// commitPatience is how long an answer may wait. A delivery that becomes durable later comes again
// and is a duplicate (F19).
const commitPatience = 15 * time.Second

// notify makes a notification of a known subscription durable (S-60 to S-70). The engine reads it
// later.
func (c *Callback) notify(w http.ResponseWriter, r *http.Request, token string, began time.Time) {
	// A sender that closes its half of the connection early ends r.Context(), and is answered all
	// the same.
	ctx := context.WithoutCancel(r.Context())
	sub, err := c.subs.find(ctx, token) // by the token and never by headers (S-63)
	switch {
	case errors.Is(err, store.ErrNotFound):
		c.o.Observe.Rejected(0, ReasonUnknown)
		refuse(w, r, http.StatusNotFound)
		return
	case err != nil:
		c.o.Observe.Rejected(0, ReasonBusy)
		c.failed(w, r, "a notification", store.Subscription{}, err)
		return
	case ended(&sub):
		c.o.Observe.Rejected(sub.SourceID, ReasonGone)
		refuse(w, r, http.StatusGone)
		return
	}
	if wait := c.inbox.retryAfter(sub.SourceID); wait > 0 {
		c.o.Observe.Rejected(sub.SourceID, ReasonBusy)
		busy(w, r, wait)
		return
	}
	reserved := c.memory.reserve(sub.ID)
	defer reserved.release()
	d, malformed, err := c.receive(ctx, w, r, sub, reserved)
	if err != nil {
		c.reject(w, r, sub, err)
		return
	}
	err = c.inbox.deliver(d, reserved.transfer(), gate.CutOff(ctx))
	if err != nil { // the committer logged it, once for the batch
		c.o.Observe.Rejected(sub.SourceID, ReasonBusy)
		busy(w, r, whileBusy)
		return
	}
	if malformed {
		c.o.Observe.Rejected(sub.SourceID, ReasonMalformed)
		c.tallies.add(sub, store.Tally{RejectedMalformed: 1})
	}
	if d.Signed {
		c.checkSelfLink(r.Header, sub)
	}
	c.o.Observe.Acknowledged(sub.SourceID, time.Since(began))
	write(w, http.StatusOK)
}

// ended: the hub has nothing to deliver any more (S-92).
func ended(sub *store.Subscription) bool {
	return sub.State == store.SubGone || sub.State == store.SubOff && !sub.Expires.Known()
}

// receive reads a notification and checks its signature. malformed: not of the channel's kind.
func (c *Callback) receive(ctx context.Context, w http.ResponseWriter, r *http.Request, sub store.Subscription,
	reserved *reservation) (d *store.Delivery, malformed bool, err error) {
	raw, err := readBody(w, r, c.o.MaxBody, reserved)
	if err != nil {
		return nil, false, err
	}
	gate.Received(ctx)
	body, signed, err := c.authenticate(r.Header, sub, raw, reserved)
	if err != nil {
		return nil, false, err
	}
	d = &store.Delivery{
		SubscriptionID: sub.ID, SourceID: sub.SourceID, SetID: sub.SetID, Kind: sub.Kind,
		Received: store.MicrosOf(c.o.Now()),
		Signed:   signed,
		Digest:   sha256.Sum256(body),
		Type:     clip(r.Header.Get("Content-Type"), 256),
		From:     store.NoTime, Until: store.NoTime,
		Body: body,
	}
	if len(body) == 0 { // only a hint to pull (S-69)
		return d, false, nil
	}
	var ok bool
	d.From, d.Until, ok = readHead(sub.Kind, body)
	return d, !ok, nil
}

// authenticate checks the signature over the bytes on the wire, then over the decoded ones (S-80 to
// S-87). Without a secret a signature is ignored (S-86).
func (c *Callback) authenticate(h http.Header, sub store.Subscription, raw []byte,
	reserved *reservation) (body []byte, signed bool, err error) {
	var bad error
	if sub.Secret != "" {
		if bad = c.signature(h, sub, raw); bad == nil {
			signed = true
		}
	}
	coding := codingOf(h)
	if coding == "" || len(raw) == 0 {
		return raw, signed, bad
	}
	body, err = decode(coding, raw, c.o.MaxBody, reserved)
	if bad != nil {
		if errors.Is(err, errBusy) {
			return nil, false, err
		}
		if err != nil || c.signature(h, sub, body) != nil {
			return nil, false, bad
		}
		return body, true, nil
	}
	switch {
	case err == nil:
		return body, signed, nil
	case errors.Is(err, errCoding):
		return raw, signed, nil // kept: the hub signed it, so something changed
	}
	return nil, false, err
}

// signature checks the header against b. One valid signature of several is enough.
func (c *Callback) signature(h http.Header, sub store.Subscription, b []byte) error {
	weakest := c.o.Weakest(sub.SourceID)
	values := h.Values(websub.SignatureHeader)
	if len(values) == 0 {
		values = []string{""} // S-81
	}
	var first error
	for _, v := range values[:min(len(values), 4)] {
		err := websub.VerifySignature(v, sub.Secret, b, weakest)
		if err == nil {
			return nil
		}
		if first == nil {
			first = err
		}
	}
	return fmt.Errorf("%w: %w", errSignature, first)
}

func (c *Callback) reject(w http.ResponseWriter, r *http.Request, sub store.Subscription, err error) {
	switch {
	case errors.Is(err, errTooLarge): // its content must come by a pull
		c.o.Observe.Rejected(sub.SourceID, ReasonTooLarge)
		c.tallies.add(sub, store.Tally{RejectedTooLarge: 1})
		write(w, http.StatusRequestEntityTooLarge)
	case errors.Is(err, errSignature): // S-85: dropped and counted
		c.o.Observe.Rejected(sub.SourceID, ReasonSignature)
		c.tallies.add(sub, store.Tally{RejectedSignature: 1})
		if c.o.Doubtful != nil && c.doubted.allow(sub.ID, c.o.Now()) {
			c.o.Doubtful(sub.SourceID, sub.SetID)
		}
		write(w, http.StatusForbidden)
	case errors.Is(err, errBusy):
		c.o.Observe.Rejected(sub.SourceID, ReasonBusy)
		busy(w, r, whileBusy)
	case errors.Is(err, errSlow):
		c.o.Observe.Rejected(sub.SourceID, ReasonBroken)
		w.Header().Set("Connection", "close")
		write(w, http.StatusRequestTimeout)
	default:
		c.o.Observe.Rejected(sub.SourceID, ReasonBroken)
		w.Header().Set("Connection", "close")
		write(w, http.StatusBadRequest)
	}
}

// checkSelfLink looks for another topic (S-64): a hint, because no signature covers headers (S-88).
func (c *Callback) checkSelfLink(h http.Header, sub store.Subscription) {
	if c.o.Moved == nil || h.Get("Link") == "" {
		return
	}
	selves := websub.Targets(websub.ParseLinks(h.Values("Link"), nil), "self")
	if len(selves) == 1 && selves[0] != sub.Topic && c.moved.allow(sub.ID, c.o.Now()) {
		c.o.Moved(sub, selves[0])
	}
}

func clip(s string, n int) string {
	if len(s) > n {
		s = s[:n]
	}
	return strings.ToValidUTF8(s, "\uFFFD")
}

const maxHead = 256 << 10

// readHead reads a notification up to its first entry: only one with an interval can be a
// duplicate. ok is false if it is not of the channel's kind (S-61, F39); its media type is ignored
// (S-65).
func readHead(kind store.ChannelKind, body []byte) (from, until store.Micros, ok bool) {
	var want []rsdoc.Kind
	switch kind {
	case store.ChannelChange: // resourcesync_push says changelist
		want = []rsdoc.Kind{rsdoc.KindChangeNotification, rsdoc.KindChangeList}
	case store.ChannelFramework:
		want = []rsdoc.Kind{rsdoc.KindFrameworkNotification}
	default: // a feed's topic may be anything (S-65)
		return store.NoTime, store.NoTime, true
	}
	r, err := rsdoc.OpenBytes(body, rsdoc.Options{Assume: want[0], Limits: rsdoc.Limits{Bytes: maxHead}})
	if err != nil {
		return store.NoTime, store.NoTime, false
	}
	head, err := r.Head()
	if err != nil || head.Shape != rsdoc.List || head.Expect(want...) != nil { // never an index
		return store.NoTime, store.NoTime, false
	}
	return micros(head.From), micros(head.Until), true
}

func micros(m rsdoc.Micros) store.Micros {
	if !m.Known() {
		return store.NoTime
	}
	return store.Micros(m)
}
