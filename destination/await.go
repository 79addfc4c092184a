package destination

import (
	"context"
	"io"
	"time"

	"resyncd/destination/fetch"
)

// All waits of a Reader for the Source are in this file; its owner can let others work meanwhile (ReaderOptions.Await).

func noWait() func() { return func() {} }

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

func (r *Reader) pause(ctx context.Context, d time.Duration) error {
	defer r.await()()
	return r.sleep(ctx, d)
}

type awaited struct {
	io.ReadCloser
	await func() (resume func())
}

// Read implements io.Reader.
func (b *awaited) Read(p []byte) (int, error) {
	defer b.await()()
	return b.ReadCloser.Read(p)
}
