package e2e_test

import (
	"encoding/binary"
	"encoding/json"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/net/dns/dnsmessage"
)

// resolveAll builds resyncd so that every name is this machine, except that moving.example is 127.0.0.9 at the first
// look-up of its address. It returns the program, and the variable that it needs.
func (c *canary) resolveAll(t *testing.T) (program, variable string) {
	t.Helper()
	l, err := net.Listen("tcp", freePort)
	if err != nil {
		t.Fatal(err)
	}
	var answering sync.WaitGroup
	answering.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			answering.Go(func() { c.answerNames(conn) })
		}
	})
	t.Cleanup(func() { _ = l.Close(); answering.Wait() })
	main, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	file, err := filepath.Abs("testdata/resolver/resolver.go")
	if err != nil {
		t.Fatal(err)
	}
	overlay, err := json.Marshal(map[string]any{"Replace": map[string]string{filepath.Join(main, "resolver.go"): file}})
	folder := t.TempDir()
	if err == nil {
		err = os.WriteFile(filepath.Join(folder, "overlay.json"), overlay, 0o600)
	}
	if err == nil {
		err = build(filepath.Join(folder, "resyncd"), "-overlay", filepath.Join(folder, "overlay.json"), "resyncd/cmd/resyncd")
	}
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(folder, "resyncd"), "TEST_RESOLVER=" + l.Addr().String()
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
