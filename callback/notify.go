package callback

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"slices"
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
	case err == nil:
		err = c.take(ctx, w, r, sub)
	case !errors.Is(err, store.ErrNotFound):
		c.tallies.failure("cannot answer a notification: hubs are told to come again", store.Subscription{}, err)
		err = errBusy
	}
	if err != nil {
		c.reject(w, r, sub, err)
		return
	}
	c.o.Observe.Acknowledged(sub.SourceID, time.Since(began))
	write(w, http.StatusOK)
}

// take returns nil once a notification is durable.
func (c *Callback) take(ctx context.Context, w http.ResponseWriter, r *http.Request, sub store.Subscription) error {
	if ended(&sub) {
		return errGone
	}
	if err := c.inbox.refuses(sub.SourceID); err != nil {
		return err
	}
	reserved := c.memory.reserve(sub.ID)
	defer reserved.release()
	d, malformed, err := c.receive(ctx, w, r, sub, reserved)
	if err != nil {
		return err
	}
	if c.inbox.deliver(d, reserved, gate.CutOff(ctx)) != nil {
		return errBusy // the committer logged why, once for the batch
	}
	if malformed {
		c.o.Observe.Rejected(sub.SourceID, ReasonMalformed)
		c.tallies.add(sub, store.Tally{RejectedMalformed: 1})
	}
	if d.Signed {
		c.checkSelfLink(r.Header, sub)
	}
	return nil
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
		bad = c.signature(h, sub, raw)
		signed = bad == nil
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
		first = cmp.Or(first, err)
	}
	return fmt.Errorf("%w: %w", errSignature, first)
}

// refusal is the answer to a notification that is not kept.
type refusal struct {
	why    error
	reason string // of Observer.Rejected
	status int
	wait   time.Duration // until the hub is to come again
	unread bool          // its body is still to come
	cut    bool          // its connection is of no more use
}

var refusals = []refusal{
	{why: store.ErrNotFound, reason: ReasonUnknown, status: http.StatusNotFound, unread: true},
	{why: errGone, reason: ReasonGone, status: http.StatusGone, unread: true},
	{why: errFull, reason: ReasonBusy, status: http.StatusServiceUnavailable, wait: whileFull, unread: true},
	{why: errBusy, reason: ReasonBusy, status: http.StatusServiceUnavailable, wait: whileBusy, unread: true},
	{why: errTooLarge, reason: ReasonTooLarge, status: http.StatusRequestEntityTooLarge},
	{why: errSignature, reason: ReasonSignature, status: http.StatusForbidden},
	{why: errSlow, reason: ReasonBroken, status: http.StatusRequestTimeout, cut: true},
	{reason: ReasonBroken, status: http.StatusBadRequest, cut: true}, // all else
}

func (c *Callback) reject(w http.ResponseWriter, r *http.Request, sub store.Subscription, err error) {
	how := refusals[slices.IndexFunc(refusals, func(f refusal) bool { return f.why == nil || errors.Is(err, f.why) })]
	c.o.Observe.Rejected(sub.SourceID, how.reason)
	switch how.reason {
	case ReasonTooLarge: // its content must come by a pull
		c.tallies.add(sub, store.Tally{RejectedTooLarge: 1})
	case ReasonSignature: // S-85: dropped and counted
		c.tallies.add(sub, store.Tally{RejectedSignature: 1})
		if c.o.Doubtful != nil && c.doubted.allow(sub.ID, c.o.Now()) {
			c.o.Doubtful(sub.SourceID, sub.SetID)
		}
	}
	switch {
	case how.wait > 0:
		busy(w, r, how.wait)
	case how.unread:
		refuse(w, r, how.status)
	default:
		if how.cut {
			w.Header().Set("Connection", "close")
		}
		write(w, how.status)
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
	return store.Micros(head.From), store.Micros(head.Until), true
}

// keeperTime bounds the keeper's work (S-36).
const keeperTime = 5 * time.Second

// verify answers a verification (S-31 to S-39, S-92) or a denial (S-40, S-41), and what it does not
// confirm like an unknown path.
func (c *Callback) verify(w http.ResponseWriter, r *http.Request, token string) {
	// The request of a hub that is gone stands.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), keeperTime)
	defer cancel()
	sub, err := c.subs.query(ctx, token) // the keeper may just have made it
	challenge := ""
	if err == nil {
		challenge, err = c.confirm(ctx, r.URL.RawQuery, sub)
	}
	switch {
	case errors.Is(err, store.ErrNotFound):
		refuse(w, r, http.StatusNotFound)
	case err != nil:
		c.tallies.failure("cannot answer a verification or denial: hubs are told to come again", sub, err)
		busy(w, r, whileBusy)
	case challenge == "":
		write(w, http.StatusOK)
	default:
		text(w, http.StatusOK, challenge)
	}
}

// confirm is the challenge of a request that is confirmed, "" for a denial that is recorded.
func (c *Callback) confirm(ctx context.Context, query string, sub store.Subscription) (string, error) {
	v, err := websub.ParseVerification(query)
	if err != nil || v.Topic != sub.Topic {
		return "", store.ErrNotFound
	}
	gate.Received(ctx)
	gone := sub.State == store.SubGone
	if v.Mode == websub.ModeDenied {
		if !gone {
			err = c.o.Keeper.Denied(ctx, sub, v.Reason)
		}
		if errors.Is(err, store.ErrNotFound) {
			err = nil
		}
		return "", err
	}
	yes := gone && v.Mode == websub.ModeUnsubscribe // the hub lost our first answer
	if !websub.ValidChallenge(v.Challenge) {        // S-34
		return "", store.ErrNotFound
	}
	if !gone {
		yes, err = c.o.Keeper.Verify(ctx, sub, v)
	}
	if err == nil && !yes {
		err = store.ErrNotFound
	}
	return v.Challenge, err
}
