package dir

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
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
func Inspect(path string) (state State, id string, err error) {
	defer failed(&err, "inspect mirror root", path)
	top, err := openTop(path)
	if errors.Is(err, fs.ErrNotExist) {
		return Absent, "", danglingLink(path)
	}
	if err != nil {
		return Absent, "", err
	}
	defer top.close()
	m, err := readMarker(top)
	if err == nil {
		return Marked, m.ID, nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return Foreign, "", err
	}
	h, err := top.handle()
	if err != nil {
		return Foreign, "", err
	}
	names, err := h.Readdirnames(2)
	if err != nil && err != io.EOF {
		return Foreign, "", err
	}
	for _, name := range names {
		if !strings.EqualFold(name, blob.Reserved) {
			return Foreign, "", nil
		}
	}
	return Empty, "", nil
}

// danglingLink reports a link to nothing.
func danglingLink(path string) error {
	target, err := os.Readlink(path)
	if err != nil {
		return nil
	}
	return fmt.Errorf("a link to %s, where nothing is: is its disk not mounted?", target)
}

// Create makes path a mirror root, durably, and returns the id that Open needs. An existing folder
// is adopted with everything in it; a marked root keeps its id, so that Create may be repeated. The
// content gets the usual modes under the umask, the reserved folder 0700.
func Create(path string) (id string, err error) {
	defer failed(&err, "create mirror root", path)
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
	if err := danglingLink(path); err != nil {
		return err
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

// The root marker (F12): without it, an empty mount point would be taken for a mirror whose files are all gone.
const (
	markerName   = "root"
	markerFormat = 1
	markerLimit  = 4 << 10

	stageName = "stage"
	trashName = "trash"
)

type marker struct {
	Format int    `json:"format"`
	ID     string `json:"id"`
}

// readMarker reads the marker of a root; fs.ErrNotExist if there is none.
func readMarker(top *folder) (marker, error) {
	reserved, err := top.child(blob.Reserved)
	if err != nil {
		return marker{}, err
	}
	defer reserved.close()
	f, _, err := openRegular(reserved, markerName)
	if err != nil {
		return marker{}, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, markerLimit))
	if err != nil {
		return marker{}, classify(err)
	}
	var m marker
	if err := json.Unmarshal(text, &m); err != nil || m.ID == "" || m.Format < 1 {
		return marker{}, fmt.Errorf("%w: %s/%s is damaged", blob.ErrUnmarked, blob.Reserved, markerName)
	}
	if m.Format > markerFormat {
		return marker{}, fmt.Errorf("mirror format %d is newer than this program knows (%d): use a newer resyncd",
			m.Format, markerFormat)
	}
	return m, nil
}

// writeMarker puts a new marker into the reserved folder, whole and durable. If another process was
// faster, its marker is returned.
func writeMarker(top, reserved *folder) (marker, error) {
	var id [16]byte
	rand.Read(id[:]) // never fails (crypto/rand)
	m := marker{Format: markerFormat, ID: hex.EncodeToString(id[:])}
	text, err := json.Marshal(m)
	if err != nil {
		return marker{}, err
	}
	temp := markerName + "." + m.ID
	f, err := reserved.root.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL|openFlags, 0o600)
	if err != nil {
		return marker{}, err
	}
	if _, err = f.Write(append(text, '\n')); err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = renameNew(top, reserved, temp, reserved, markerName)
	}
	if err == nil {
		return m, nil
	}
	removeFile(reserved, temp)
	if errors.Is(err, fs.ErrExist) {
		return readMarker(top)
	}
	return marker{}, err
}
