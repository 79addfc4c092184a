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

	"resyncd/store/blob"
)

// The root marker (F12): without it, an empty mount point would be taken for a mirror whose files
// are all gone.
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

// newMarker makes a marker with a unique id.
func newMarker() marker {
	var id [16]byte
	rand.Read(id[:]) // never fails (crypto/rand)
	return marker{Format: markerFormat, ID: hex.EncodeToString(id[:])}
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
	m := newMarker()
	text, err := json.Marshal(m)
	if err != nil {
		return marker{}, err
	}
	temp := markerName + "." + m.ID
	f, err := reserved.root.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL|openFlags, 0o600)
	if err != nil {
		return marker{}, err
	}
	_, err = f.Write(append(text, '\n'))
	if err == nil {
		err = f.Sync()
	}
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	if err == nil {
		err = renameNew(top, reserved, temp, reserved, markerName)
	}
	if err != nil {
		removeFile(reserved, temp)
		if errors.Is(err, fs.ErrExist) {
			return readMarker(top)
		}
		return marker{}, err
	}
	return m, nil
}
