package destination

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"time"

	"resyncd/destination/backoff"
	"resyncd/destination/fetch"
	"resyncd/destination/rsdoc"
)

// ReaderOptions configure a Reader. Client is needed, the rest may be zero.
type ReaderOptions struct {
	Client *fetch.Client
	Policy *fetch.Policy // nil: nothing is trusted
	Memory Memory        // nil: no request is conditional
	// RetryFor is how long transient failures of one document are retried (network.retry_for). 0: only a body that
	// broke off is begun again, a few times.
	RetryFor time.Duration
	// Topic configures a feed that is given as a Source; NoFeeds refuses one.
	Topic   TopicOptions
	NoFeeds bool
	// Doubted is called with a reason for a document that was not trusted in full; may be nil.
	Doubted func(reason string)
	// Await is called before each wait for the Source, and the function it returns after it, in the Reader's goroutine:
	// in between its owner may let others work. nil: nobody else has work.
	Await func() (resume func())
	Log   *slog.Logger // nil for silence
}

// Reasons of ReaderOptions.Doubted.
const (
	// DoubtChanged says that an index changed while its lists were read (F67, F69).
	DoubtChanged = "changed-while-read"
	// DoubtKept says that a Source Description cannot be read, so the last reading counts (F72).
	DoubtKept = "kept-copy"
)

// Reader reads the documents of one Source. It and its Memory are for one goroutine at a time.
type Reader struct {
	o        ReaderOptions
	limits   limits
	uncached bool

	now    func() time.Time
	sleep  func(ctx context.Context, d time.Duration) error
	jitter func(d time.Duration) time.Duration
}

// NewReader makes one.
func NewReader(o ReaderOptions) *Reader {
	if o.Doubted == nil {
		o.Doubted = func(string) {}
	}
	if o.Await == nil {
		o.Await = func() func() { return func() {} }
	}
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	return &Reader{
		o: o, limits: defaultLimits, now: time.Now, sleep: backoff.Wait,
		jitter: func(d time.Duration) time.Duration { return backoff.Jittered(d, 4) },
	}
}

// Uncached is the same reader past caches and without validators (F59). What it reads is remembered as usual.
func (r *Reader) Uncached() *Reader {
	fresh := *r
	fresh.uncached = true
	return &fresh
}

func unchanged(known *Document, a *answer) *Document {
	d := *known
	d.NotModified, d.Date = true, a.meta().Date
	return &d
}

func validators(known *Document) Meta {
	if known == nil {
		return Meta{}
	}
	return known.Meta
}

type answer struct {
	*fetch.Response
	base *url.URL
}

func (a *answer) meta() Meta {
	return Meta{ETag: a.ETag, LastModified: a.LastModified, Date: rsdoc.MicrosOf(a.Date), NotModified: a.NotModified}
}

// request asks for a document with the validators of m. Documents may lie on any host that the address policy allows:
// only loc is held to the scope.
func (r *Reader) request(url string, m Meta) *fetch.Request {
	return &fetch.Request{
		URL: url, Policy: r.o.Policy, Gzip: true, NoCache: r.uncached, ETag: m.ETag, LastModified: m.LastModified,
	}
}

// take is the one way to a document: it asks until read has taken the answer, the document has failed for good, or the
// window ends. What read changes in the request holds for the next try.
func (r *Reader) take(ctx context.Context, w *retryWindow, req *fetch.Request, read func(*answer) error) error {
	return r.retry(ctx, w, req.URL, func() error { return r.ask(ctx, req, read) })
}

func (r *Reader) ask(ctx context.Context, req *fetch.Request, read func(*answer) error) error {
	resp, err := r.answerTo(ctx, *req)
	if err != nil {
		return err
	}
	resp.Body = &awaited{ReadCloser: resp.Body, await: r.o.Await}
	defer func() { _ = resp.Body.Close() }()
	base, err := url.Parse(resp.URL)
	if err != nil {
		return fmt.Errorf("answered from an address that is no URL: %w", err)
	}
	return read(&answer{Response: resp, base: base})
}

func open(body io.Reader, base *url.URL, assume rsdoc.Kind) (*rsdoc.Reader, error) {
	doc, err := rsdoc.Open(body, rsdoc.Options{Base: base, Assume: assume, Faulty: true})
	if err != nil {
		return nil, broken(err)
	}
	return doc, nil
}

func (r *Reader) recall(ctx context.Context, url string) (*Document, error) {
	if r.uncached || r.o.Memory == nil {
		return nil, nil
	}
	d, err := r.o.Memory.Recall(ctx, url)
	if err != nil {
		return nil, fmt.Errorf("recall document %s: %w", fetch.RedactURL(url), err)
	}
	if d == nil || d.URL != url {
		return nil, nil
	}
	return d, nil
}

func (r *Reader) remember(ctx context.Context, d *Document) error {
	if r.o.Memory == nil {
		return nil
	}
	if err := r.o.Memory.Remember(ctx, d); err != nil {
		return fmt.Errorf("remember document %s: %w", fetch.RedactURL(d.URL), err)
	}
	return nil
}

// All waits for the Source go through answerTo, pause and awaited, so that others can work meanwhile
// (ReaderOptions.Await).

func (r *Reader) answerTo(ctx context.Context, req fetch.Request) (*fetch.Response, error) {
	defer r.o.Await()()
	return r.o.Client.Get(ctx, req)
}

func (r *Reader) pause(ctx context.Context, d time.Duration) error {
	defer r.o.Await()()
	return r.sleep(ctx, d)
}

type awaited struct {
	io.ReadCloser
	await func() (resume func())
}

func (b *awaited) Read(p []byte) (int, error) {
	defer b.await()()
	return b.ReadCloser.Read(p)
}

// limits bound what documents may cost (P8); tests tighten them.
type limits struct {
	smallEntries, smallBytes int // of a document that is held whole, with its URLs, types and links
	feedBytes                int64
	parts                    int // lists that one walk reads
	depth                    int // of indexes, and of Source Descriptions (F67)
	requests                 int // documents that one discovery reads
}

var defaultLimits = limits{
	smallEntries: 100_000, smallBytes: 32 << 20, feedBytes: 32 << 20, parts: 100_000, depth: 3, requests: 2_000,
}

const (
	pageBytes   = 512 << 10 // of an HTML page or robots.txt
	pageLinks   = 10        // links followed from one page
	pageFeeds   = 5         // read until one is a feed
	sniffed     = 16 << 10  // decide whether it is a feed
	robotsLines = 50        // Sitemap lines followed
	upSteps     = 5         // links followed upwards from a list
	// restarts is how often a document whose body breaks off is begun again, beyond what RetryFor allows.
	restarts     = 2
	giveUpInARow = 10 // transient failures in a row that end a walk
)

const (
	retryFirst = 500 * time.Millisecond
	retryMost  = 15 * time.Second
)

// retryWindow is how much longer transient failures are retried. It is whole again after an answer, so that a dead
// server costs it once and not once for each document.
type retryWindow struct {
	window time.Duration
	since  time.Time // of the first failure in a row
}

func (r *Reader) newWindow() *retryWindow { return &retryWindow{window: r.o.RetryFor} }

// brokenOff marks a body that failed after its first bytes: the document may be begun again.
type brokenOff struct{ err error }

func (b *brokenOff) Error() string { return b.err.Error() }
func (b *brokenOff) Unwrap() error { return b.err }

func broken(err error) error {
	if err == nil {
		return nil
	}
	d, ok := errors.AsType[*rsdoc.DocumentError](err)
	if ok && d.Problem == rsdoc.Truncated || transient(err) {
		return &brokenOff{err}
	}
	return err
}

// transient reports a failure that proves nothing about the document.
func transient(err error) bool {
	switch fetch.KindOf(err) {
	case fetch.Transient, fetch.Throttled, fetch.Stalled:
		return true
	}
	return false
}

func passing(err error) bool {
	_, cut := errors.AsType[*brokenOff](err)
	return cut || transient(err)
}

// retry calls try until it succeeds, fails for good, or the window ends. A body that broke off is begun again at least
// restarts times. A Retry-After beyond the window ends the retries (F53).
func (r *Reader) retry(ctx context.Context, p *retryWindow, url string, try func() error) error {
	for attempt := 0; ; attempt++ {
		err := try()
		if err == nil || !passing(err) {
			p.since = time.Time{}
			return err
		}
		if ctx.Err() != nil {
			return err
		}
		now := r.now()
		if p.since.IsZero() {
			p.since = now
		}
		left := p.window - now.Sub(p.since)
		wait := r.jitter(backoff.Doubled(retryFirst, attempt+1, retryMost))
		if e, ok := errors.AsType[*fetch.Error](err); ok {
			wait = max(wait, e.RetryAfter)
		}
		_, cut := errors.AsType[*brokenOff](err)
		if wait > left && !(cut && attempt < restarts && wait <= retryMost) {
			return err
		}
		r.o.Log.Debug("document will be asked for again", "url", fetch.RedactURL(url), "wait", wait, "err", err)
		if stop := r.pause(ctx, wait); stop != nil {
			return fmt.Errorf("%w while waiting to ask again after: %w", stop, err)
		}
	}
}
