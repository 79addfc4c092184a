package fetch

import "sync/atomic"

// Meter counts the requests and bytes of one Policy, beside the Client's totals. The zero value is
// ready, all methods may be called concurrently, and a nil Meter counts nothing.
type Meter struct {
	requests atomic.Int64
	bytes    atomic.Int64
}

// Requests returns how many requests were sent on the wire, retries and redirects included.
func (m *Meter) Requests() int64 {
	if m == nil {
		return 0
	}
	return m.requests.Load()
}

// Bytes returns how many bytes of bodies were received, before decoding.
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
