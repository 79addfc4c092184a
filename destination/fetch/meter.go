package fetch

import "sync/atomic"

// Meter counts the requests and bytes of one Policy. A nil Meter counts nothing.
type Meter struct {
	requests atomic.Int64
	bytes    atomic.Int64
}

// Requests counts what was sent, retries and redirects included.
func (m *Meter) Requests() int64 {
	if m == nil {
		return 0
	}
	return m.requests.Load()
}

// Bytes counts bytes of bodies, before decoding.
func (m *Meter) Bytes() int64 {
	if m == nil {
		return 0
	}
	return m.bytes.Load()
}

func (c *Client) countRequest(p *Policy) {
	c.requests.Add(1)
	if p != nil && p.Meter != nil {
		p.Meter.requests.Add(1)
	}
}

func (c *Client) countBytes(p *Policy, n int) {
	c.bytes.Add(int64(n))
	if p != nil && p.Meter != nil {
		p.Meter.bytes.Add(int64(n))
	}
}
