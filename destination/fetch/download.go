package fetch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"

	"resyncd/destination/backoff"
)

const (
	smallBuffer = 16 << 10
	largeBuffer = 64 << 10
	// Otherwise a very large file would never arrive over a bad line.
	resumeProgress = 1 << 20
)

// Sink receives one body. Reset discards everything written so far.
type Sink interface {
	io.Writer
	Reset() error
}

// DownloadOptions say what Download may do to get one whole body.
type DownloadOptions struct {
	// Resume allows a cut body to be continued by Range and If-Range, for a caller who checks a hash of the whole
	// (F76).
	Resume bool
	// DeclaredLength is the length in the list, -1 unknown. A body of another length is Broken.
	DeclaredLength int64
	// Held is how many bytes of the version HeldETag an earlier process left in the sink. With Resume, and a strong
	// ETag, they are continued if the Source still has that version; if it has not, they cost no try.
	Held     int64
	HeldETag string
	// Begins, if set, is called before the first byte of each version, once the sink is empty. The ETag of its Info is
	// the HeldETag of a later call, "" if this version cannot be continued.
	Begins func(Info) error
}

// Result is the outcome of a Download.
type Result struct {
	Info        // of the last answer; Requests counts the whole call
	Bytes int64 // in the sink
}

type download struct {
	client *Client
	req    Request
	sink   Sink
	opt    DownloadOptions
	result Result
	etag   string // of the answer that the sink holds a part of
	total  int64
	from   int64 // where the last attempt began to write
	lost   int   // how often all was begun again
	begun  bool  // an answer was used
}

// Download writes the body of one resource into sink, which must be empty, or hold Held bytes. A body that is cut short
// or stalls is continued where Resume allows it, else started over, but not that of a POST. A Retry-After comes back at
// once as Throttled, unless the host throttles all requests.
//
// An error of the sink comes back wrapped and without a Kind, all others are *Error.
func (c *Client) Download(ctx context.Context, req Request, sink Sink, opt DownloadOptions) (Result, error) {
	req.wireLength = max(opt.DeclaredLength, 0)
	req.RangeFrom, req.IfRange, req.queued = 0, "", true
	opt.Resume = opt.Resume && req.JSON == nil
	d := &download{client: c, req: req, sink: sink, opt: opt, total: -1}
	d.result.Bytes = opt.Held
	if opt.Resume && strong(opt.HeldETag) {
		d.etag = opt.HeldETag
	}
	err := d.run(ctx)
	if e, ok := errors.AsType[*Error](err); ok {
		e.Requests = d.result.Requests
	}
	return d.result, err
}

func (d *download) run(ctx context.Context) error {
	pause, tries, retries := retryBase, 0, defaultRetries
	if d.req.Once || d.req.JSON != nil {
		retries = 0
	}
	for {
		resumed, err := d.attempt(ctx)
		if err == nil {
			return nil
		}
		if kind := KindOf(err); kind != Transient && kind != Stalled && !(kind == Broken && resumed) || !d.begun {
			return err
		}
		if tries++; d.etag != "" && d.result.Bytes-d.from >= resumeProgress {
			tries, pause = d.lost, retryBase // or a Source with ever new versions would hold it for ever
		}
		if tries > retries {
			return err
		}
		if backoff.Wait(ctx, backoff.Jittered(pause, 2)) != nil {
			return &Error{Op: "get", URL: RedactURL(d.req.URL), Kind: Canceled, Err: context.Cause(ctx)}
		}
		pause = min(retryGrowth*pause, maxWait)
	}
}

// resumed reports that the answer continued what the sink holds.
func (d *download) attempt(ctx context.Context) (resumed bool, err error) {
	req := d.req
	d.from = d.result.Bytes
	if d.touched() {
		req.ETag, req.LastModified = "", "" // a 304 would not complete half a file
	}
	if d.etag != "" && d.result.Bytes > 0 {
		req.RangeFrom, req.IfRange = d.result.Bytes, d.etag
		if req.RangeFrom == d.opt.Held {
			req.RangeFrom-- // the rest may be empty, and no range is: the last byte is sent again
		}
	}
	resp, err := d.client.Get(ctx, req)
	if err != nil {
		return d.failed(ctx, &req, err)
	}
	defer resp.Body.Close() //nolint:errcheck // a read body
	resumed = resp.Status == http.StatusPartialContent
	sent := d.result.Requests + resp.Requests
	d.result.Info = resp.Info
	d.result.Requests = sent
	if resp.NotModified {
		return false, nil
	}
	if resumed {
		if resp.ETag != d.etag || resp.Encoding != "" || d.total >= 0 && resp.Total != d.total {
			_ = resp.Body.Close() // its slot is needed to ask again
			return d.useless(ctx, d.fail("get", because(Broken, "the rest belongs to another version of the resource")))
		}
		d.begun, d.total = true, resp.Total
		_, _ = io.CopyN(io.Discard, resp.Body, d.result.Bytes-req.RangeFrom) // copy meets its error again
	} else if err := d.startOver(resp); err != nil {
		return false, err
	}
	if n := d.opt.DeclaredLength; n >= 0 && resp.Total >= 0 && resp.Total != n {
		return false, d.fail("get", because(Broken, "declared with %d bytes, sent with %d", n, resp.Total))
	}
	return resumed, d.copy(resp)
}

// A refused continuation (416, a wrong range) is started over.
func (d *download) failed(ctx context.Context, req *Request, err error) (resumed bool, _ error) {
	e, _ := errors.AsType[*Error](err) // as all of Get are
	d.result.Requests += e.Requests
	if req.RangeFrom > 0 && (e.Kind == Broken || e.Status == http.StatusRequestedRangeNotSatisfiable) {
		e.Kind = Broken
		return d.useless(ctx, e)
	}
	return false, e
}

// useless gives up what the sink holds. What an earlier process left costs no try.
func (d *download) useless(ctx context.Context, e *Error) (resumed bool, _ error) {
	d.etag = ""
	if !d.begun {
		return d.attempt(ctx)
	}
	return true, e
}

func (d *download) touched() bool { return d.begun || d.opt.Held > 0 }

func (d *download) startOver(resp *Response) error {
	if d.touched() {
		if err := d.sink.Reset(); err != nil {
			return d.sinkError(err)
		}
	}
	d.result.Bytes, d.from = 0, 0
	d.etag, d.total = "", resp.Total
	if d.opt.Resume && strong(resp.ETag) && resp.Encoding == "" && resp.Header.Get("Accept-Ranges") != "none" {
		d.etag = resp.ETag
	}
	if d.begun {
		d.lost++
	}
	d.begun = true
	if d.opt.Begins == nil {
		return nil
	}
	info := resp.Info
	info.ETag = d.etag
	if err := d.opt.Begins(info); err != nil {
		return d.sinkError(err)
	}
	return nil
}

func (d *download) copy(resp *Response) error {
	pool := &d.client.large
	if resp.Length >= 0 && resp.Length <= smallBuffer {
		pool = &d.client.small
	}
	kept := pool.Get().(*[]byte)
	defer pool.Put(kept)
	buf, want := *kept, d.opt.DeclaredLength
	if want < 0 {
		want = resp.Total
	}
	for {
		n, readErr := io.ReadFull(resp.Body, buf)
		if want >= 0 && d.result.Bytes+int64(n) > want {
			return d.fail("read", because(Broken, "declared with %d bytes, but more came", want))
		}
		if n > 0 {
			wrote, err := d.sink.Write(buf[:n])
			d.result.Bytes += int64(wrote)
			if err == nil && wrote < n {
				err = io.ErrShortWrite
			}
			if err != nil {
				d.etag = ""
				return d.sinkError(err)
			}
		}
		switch readErr { //nolint:errorlint // a cut body is an *Error
		case nil:
		case io.EOF, io.ErrUnexpectedEOF:
			return d.checkEnd(resp, want)
		default:
			return readErr
		}
	}
}

func (d *download) checkEnd(resp *Response, n int64) error {
	if n < 0 || d.result.Bytes == n {
		return nil
	}
	kind := Broken
	if resp.CloseDelimited { // F55
		kind = Transient
	}
	return d.fail("read", because(kind, "declared with %d bytes, %d came", n, d.result.Bytes))
}

func (d *download) sinkError(err error) error {
	return fmt.Errorf("write the body of %s: %w", RedactURL(d.req.URL), err)
}

func (d *download) fail(op string, k *Error) *Error {
	k.Op, k.URL = op, RedactURL(d.req.URL)
	return k
}
