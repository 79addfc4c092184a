package main

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"strings"
	"sync"
	"testing"

	"golang.org/x/net/dns/dnsmessage"
)

// resolveAll makes every name this machine, for the whole process until the test ends, except that moving.example is
// 127.0.0.9 at the first look-up of its address. Nothing leaves the process for it.
func (c *canary) resolveAll(t *testing.T) {
	t.Helper()
	usual := net.DefaultResolver
	var serving sync.WaitGroup
	net.DefaultResolver = &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		ours, theirs := net.Pipe()
		serving.Go(func() { c.answerNames(theirs) })
		return ours, nil
	}}
	t.Cleanup(func() { net.DefaultResolver = usual; serving.Wait() })
}

// answerNames speaks DNS over a stream.
func (c *canary) answerNames(conn net.Conn) {
	defer conn.Close()
	for {
		var size [2]byte
		if _, err := io.ReadFull(conn, size[:]); err != nil {
			return
		}
		question := make([]byte, binary.BigEndian.Uint16(size[:]))
		if _, err := io.ReadFull(conn, question); err != nil {
			return
		}
		answer, err := c.answerName(question)
		if err != nil {
			return
		}
		if _, err := conn.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(answer))), answer...)); err != nil { //nolint:gosec // small
			return
		}
	}
}

func (c *canary) answerName(question []byte) ([]byte, error) {
	var m dnsmessage.Message
	if err := m.Unpack(question); err != nil {
		return nil, err
	}
	m.Response, m.Additionals = true, nil
	for _, q := range m.Questions {
		head := dnsmessage.ResourceHeader{Name: q.Name, Type: q.Type, Class: dnsmessage.ClassINET}
		moving := strings.HasPrefix(q.Name.String(), "moving.example.")
		switch {
		case q.Type == dnsmessage.TypeA && moving && c.asked.Add(1) == 1:
			m.Answers = append(m.Answers, dnsmessage.Resource{Header: head, Body: &dnsmessage.AResource{A: [4]byte{127, 0, 0, 9}}})
		case q.Type == dnsmessage.TypeA:
			m.Answers = append(m.Answers, dnsmessage.Resource{Header: head, Body: &dnsmessage.AResource{A: [4]byte{127, 0, 0, 1}}})
		case q.Type == dnsmessage.TypeAAAA && !moving:
			m.Answers = append(m.Answers, dnsmessage.Resource{Header: head, Body: &dnsmessage.AAAAResource{AAAA: [16]byte{15: 1}}})
		}
	}
	return m.Pack()
}
