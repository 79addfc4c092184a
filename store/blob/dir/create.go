package dir

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"resyncd/store/blob"
)

// State is what a mirror root's path holds.
type State uint8

// The states that Inspect reports.
const (
	Absent  State = iota // nothing is there
	Empty                // a folder that holds nothing but perhaps the reserved folder
	Foreign              // a folder with files and no marker: to be adopted, or its marker is lost
	Marked               // a mirror root
)

// Inspect reports what path holds and the id of a mirror root, and touches nothing. A damaged
// marker, or a path to anything but a folder, is an error (blob.ErrUnmarked).
func Inspect(path string) (State, string, error) {
	top, err := openTop(path)
	if errors.Is(err, fs.ErrNotExist) {
		if target, linkErr := os.Readlink(path); linkErr == nil {
			return Absent, "", fmt.Errorf("inspect mirror root %s: a link to %s, where nothing is: is its disk not mounted?",
				path, target)
		}
		return Absent, "", nil
	}
	if err != nil {
		return Absent, "", fmt.Errorf("inspect mirror root %s: %w", path, classify(err))
	}
	defer top.close()
	m, err := readMarker(top)
	if err == nil {
		return Marked, m.ID, nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return Foreign, "", fmt.Errorf("inspect mirror root %s: %w", path, err)
	}
	h, err := top.handle()
	if err != nil {
		return Foreign, "", fmt.Errorf("inspect mirror root %s: %w", path, classify(err))
	}
	names, err := h.Readdirnames(2)
	if err != nil && err != io.EOF {
		return Foreign, "", fmt.Errorf("inspect mirror root %s: %w", path, classify(err))
	}
	for _, name := range names {
		if !strings.EqualFold(name, blob.Reserved) {
			return Foreign, "", nil
		}
	}
	return Empty, "", nil
}

// Create makes path a mirror root, durably, and returns the id that Open needs. An existing folder
// is adopted with everything in it; a marked root keeps its id, so that Create may be repeated. The
// content gets the usual modes under the umask, the reserved folder 0700.
func Create(path string) (id string, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("create mirror root %s: %w", path, classify(err))
		}
	}()
	if err := MakeRoot(path); err != nil {
		return "", err
	}
	top, err := openTop(path)
	if err != nil {
		return "", err
	}
	defer top.close()
	reserved, err := top.childMade(blob.Reserved, 0o700)
	if err != nil {
		return "", err
	}
	defer reserved.close()
	for _, name := range []string{stageName, trashName} {
		f, err := reserved.childMade(name, 0o700)
		if err != nil {
			return "", err
		}
		f.close()
	}
	m, err := readMarker(top)
	if errors.Is(err, fs.ErrNotExist) {
		m, err = writeMarker(top, reserved)
	}
	if err != nil {
		return "", err
	}
	for _, f := range []*folder{reserved, top} {
		h, err := f.handle()
		if err == nil {
			err = syncFolder(h)
		}
		if err != nil {
			return "", err
		}
	}
	return m.ID, nil
}

// MakeRoot makes the folder of a mirror and its missing parents, durably. Create calls it; a caller
// that writes there before needs it too.
func MakeRoot(path string) error {
	path, err := filepath.Abs(path)
	if err != nil {
		return err
	}
	if _, err := os.Stat(path); err == nil {
		return nil // openTop checks that it is a folder
	} else if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if target, err := os.Readlink(path); err == nil {
		return fmt.Errorf("a link to %s, where nothing is: is its disk not mounted?", target)
	}
	parent := filepath.Dir(path)
	if parent == path {
		return fs.ErrNotExist
	}
	if err := MakeRoot(parent); err != nil {
		return err
	}
	if err := os.Mkdir(path, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	h, err := os.Open(parent)
	if err != nil {
		return err
	}
	defer h.Close()
	return syncFolder(h)
}
