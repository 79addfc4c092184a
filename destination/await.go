package destination

import (
	"context"
	"io"
	"time"

	"resyncd/destination/fetch"
)

// A Reader waits for the Source in three places: for an answer, for the next bytes of its body, and before it asks again.
// All of them are here, so that its owner can let others work meanwhile (ReaderOptions.Await).

// noWait is the Await of a Reader whose owner just waits.
func noWait() func() { return func() {} }

// get asks one question and waits for the answer.
func (r *Reader) get(ctx context.Context, req fetch.Request) (*fetch.Response, error) {
	resp, err := r.answerTo(ctx, req)
	if err == nil {
		resp.Body = &awaited{ReadCloser: resp.Body, await: r.await}
	}
	return resp, err
}

func (r *Reader) answerTo(ctx context.Context, req fetch.Request) (*fetch.Response, error) {
	defer r.await()()
	return r.client.Get(ctx, req)
}

// pause waits before a document is asked for again.
func (r *Reader) pause(ctx context.Context, d time.Duration) error {
	defer r.await()()
	return r.sleep(ctx, d)
}

// awaited is a body whose next bytes are waited for.
type awaited struct {
	io.ReadCloser
	await func() (resume func())
}

// Read implements io.Reader.
func (b *awaited) Read(p []byte) (int, error) {
	defer b.await()()
	return b.ReadCloser.Read(p)
}
