package blob

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"regexp"
	"strconv"
	"time"
)

// Trash ids made here are 12 hex digits of milliseconds and 20 of chance, so that the age of a file
// in the trash is known even when the state database is lost.
const idTimeDigits, idDigits = 12, 32

var (
	ownID = regexp.MustCompile(`^[0-9a-f]{32}$`)
	anyID = regexp.MustCompile(`^[0-9A-Za-z_-]{1,64}$`)
)

// NewTrashID makes a unique id for a file that is trashed now. The caller records it before or after.
func NewTrashID(now time.Time) string {
	var chance [(idDigits - idTimeDigits) / 2]byte
	rand.Read(chance[:]) // never fails (crypto/rand)
	return fmt.Sprintf("%012x", uint64(max(now.UnixMilli(), 0))&(1<<48-1)) + hex.EncodeToString(chance[:])
}

// TrashTime is when an id of NewTrashID was made; the zero time for any other id.
func TrashTime(id string) time.Time {
	if !ownID.MatchString(id) {
		return time.Time{}
	}
	ms, _ := strconv.ParseInt(id[:idTimeDigits], 16, 64) // it has such digits
	return time.UnixMilli(ms).UTC()
}

// CheckTrashID reports why an id cannot name a file in every store: it must be 1 to 64 letters, digits, "-" or "_".
func CheckTrashID(id string) error {
	if !anyID.MatchString(id) {
		return fmt.Errorf("%w: trash id %.80q", ErrKey, id)
	}
	return nil
}
