//go:build linux

package e2e_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/xml"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// origin is a Source under way, and what its Resource List says.
type origin struct {
	base   string
	listed []listed
	end    func()
}

type listed struct {
	uri, path string // path is the URI's, without its slash at the front
	hash      string
}

// source starts rssource and reads its list.
func (g *rig) source(flags ...string) *origin {
	g.b.Helper()
	args := append([]string{g.program("rssource"), "--listen", freePort, "--log-level", "error"}, flags...)
	said, end := g.begin(2, args...)
	o := &origin{base: said[0], end: end}
	g.read(o)
	return o
}

// read reads the Resource List as plainly as can be, past the documents that lead to it.
func (g *rig) read(o *origin) {
	g.b.Helper()
	o.listed = nil
	lists := []string{o.base + ".resourcesync/resourcelist.xml"}
	for len(lists) > 0 {
		var doc struct {
			Parts []string `xml:"sitemap>loc"`
			URLs  []struct {
				Loc string `xml:"loc"`
				MD  struct {
					Hash string `xml:"hash,attr"`
				} `xml:"http://www.openarchives.org/rs/terms/ md"`
			} `xml:"url"`
		}
		if err := getXML(g.b.Context(), lists[0], &doc); err != nil {
			g.b.Fatal(err)
		}
		lists = append(lists[1:], doc.Parts...)
		for _, u := range doc.URLs {
			at, err := url.Parse(u.Loc)
			if err != nil {
				g.b.Fatal(err)
			}
			o.listed = append(o.listed, listed{uri: u.Loc, path: strings.TrimPrefix(at.Path, "/"), hash: strings.TrimPrefix(u.MD.Hash, "sha-256:")})
		}
	}
}

// getXML reads one document.
func getXML(ctx context.Context, uri string, into any) error {
	return fetched(ctx, uri, func(body io.Reader) error { return xml.NewDecoder(body).Decode(into) })
}

func fetched(ctx context.Context, uri string, read func(body io.Reader) error) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, uri, http.NoBody)
	if err != nil {
		return err
	}
	answer, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return errors.New(uri + ": " + answer.Status)
	}
	return read(answer.Body)
}

// faults are how a mirror differs from the Source.
type faults struct{ missing, wrong, extra int }

// check compares the files below a folder with what the Source listed, byte for byte by their hash.
func (o *origin) check(b *testing.B, folder string) (f faults) {
	b.Helper()
	want := make(map[string]string, len(o.listed))
	for _, l := range o.listed {
		want[filepath.Join(folder, filepath.FromSlash(l.path))] = l.hash
	}
	found := 0
	err := filepath.WalkDir(folder, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		hash, ok := want[name]
		if !ok {
			f.extra++
			return nil
		}
		found++
		body, err := os.ReadFile(name)
		if sum := sha256.Sum256(body); hex.EncodeToString(sum[:]) != hash {
			f.wrong++
		}
		return err
	})
	if err != nil {
		b.Fatal(err)
	}
	f.missing = len(want) - found
	return f
}

// changes waits until the open Change List has that many entries.
func (g *rig) changes(o *origin, want int) {
	g.b.Helper()
	err := poll("the Source tells of the changes", func() (bool, error) {
		var index struct {
			Parts []string `xml:"sitemap>loc"`
		}
		err := getXML(g.b.Context(), o.base+".resourcesync/changelist.xml", &index)
		told := 0
		for _, part := range index.Parts {
			var list struct {
				URLs []struct{} `xml:"url"`
			}
			if err == nil {
				err = getXML(g.b.Context(), part, &list)
			}
			told += len(list.URLs)
		}
		return told >= want, err
	})
	if err != nil {
		g.b.Fatal(err)
	}
	g.read(o)
}
