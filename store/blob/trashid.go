package blob

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"strconv"
	"time"
)

// Trash ids made here are 12 hex digits of milliseconds and 20 of chance, so that the age of a file
// in the trash is known even when the state database is lost.
const (
	idTimeDigits = 12
	idDigits     = 32
	maxID        = 64
)

// NewTrashID makes a unique id for a file that is trashed now. The caller records it before or after.
func NewTrashID(now time.Time) string {
	var chance [(idDigits - idTimeDigits) / 2]byte
	rand.Read(chance[:]) // never fails (crypto/rand)
	return fmt.Sprintf("%012x", uint64(max(now.UnixMilli(), 0))&(1<<48-1)) + hex.EncodeToString(chance[:])
}

// TrashTime is when an id of NewTrashID was made; the zero time for any other id.
func TrashTime(id string) time.Time {
	if len(id) != idDigits || !isHex(id) {
		return time.Time{}
	}
	ms, err := strconv.ParseInt(id[:idTimeDigits], 16, 64)
	if err != nil {
		return time.Time{}
	}
	return time.UnixMilli(ms).UTC()
}

// CheckTrashID reports why an id cannot name a file in every store: it must be 1 to 64 letters, digits, "-" or "_".
func CheckTrashID(id string) error {
	if id == "" || len(id) > maxID {
		return fmt.Errorf("%w: trash id of %d bytes", ErrKey, len(id))
	}
	for i := range len(id) {
		switch c := id[i]; {
		case c >= '0' && c <= '9', c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c == '-', c == '_':
		default:
			return fmt.Errorf("%w: trash id holds %q", ErrKey, c)
		}
	}
	return nil
}

// isHex accepts the lower-case digits that NewTrashID writes.
func isHex(s string) bool {
	for i := range len(s) {
		if c := s[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}
