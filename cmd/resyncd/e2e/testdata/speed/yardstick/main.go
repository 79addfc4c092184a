// Command yardstick is the least that a client can do, to hold others against: it gets the URIs that a file lists with
// net/http, hashes each body with SHA-256 and gives it its name by a rename. It knows no state, verifies nothing, syncs
// nothing and gives up at the first failure.
//
//	yardstick FILE-OF-URIS FOLDER WORKERS
package main

import (
	"bufio"
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"sync"
)

func main() {
	if err := run(os.Args[1], os.Args[2], os.Args[3]); err != nil {
		fmt.Fprintln(os.Stderr, "yardstick:", err)
		os.Exit(1)
	}
}

func run(list, folder, workers string) error {
	n, err := strconv.Atoi(workers)
	if err != nil {
		return err
	}
	file, err := os.Open(list)
	if err != nil {
		return err
	}
	defer file.Close()
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: n, MaxConnsPerHost: n}}
	uris, failed := make(chan string, n), make(chan error, n)
	var all sync.WaitGroup
	for range n {
		w := &worker{client: client, folder: folder, buffer: make([]byte, 64<<10), made: map[string]bool{}}
		all.Go(func() {
			for uri := range uris {
				if err := w.get(uri); err != nil {
					failed <- err
					return
				}
			}
		})
	}
	lines := bufio.NewScanner(file)
	for err == nil && lines.Scan() {
		select {
		case uris <- lines.Text():
		case err = <-failed:
		}
	}
	close(uris)
	all.Wait()
	select {
	case err = <-failed:
	default:
	}
	if err == nil {
		err = lines.Err()
	}
	return err
}

// worker gets one URI after the other.
type worker struct {
	client *http.Client
	folder string
	buffer []byte
	made   map[string]bool // folders that are there
}

func (w *worker) get(uri string) error {
	at, err := url.Parse(uri)
	if err != nil {
		return err
	}
	name := filepath.Join(w.folder, filepath.FromSlash(at.Path))
	if dir := filepath.Dir(name); !w.made[dir] {
		if err := os.MkdirAll(dir, 0o777); err != nil {
			return err
		}
		w.made[dir] = true
	}
	answer, err := w.client.Get(uri)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("GET %s: %s", uri, answer.Status)
	}
	file, err := os.OpenFile(name+".part", os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o666)
	if err != nil {
		return err
	}
	sum := sha256.New()
	_, err = io.CopyBuffer(io.MultiWriter(file, sum), answer.Body, w.buffer)
	sum.Sum(nil)
	if closed := file.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return err
	}
	return os.Rename(name+".part", name)
}
