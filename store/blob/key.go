package blob

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// MaxKey is the greatest length of a key in bytes (contract.md 5, F84).
const MaxKey = 1024

// Reserved is the root's name for our own files. No key lies there, in any letter case.
const Reserved = ".resyncd"

// CheckKey reports why a mirror cannot hold a file under this key: it must be local, without empty,
// "." or ".." segment or NUL, not below Reserved, and of at most MaxKey bytes.
func CheckKey(key string) error {
	if len(key) > MaxKey {
		return fmt.Errorf("%w: longer than %d bytes", ErrKey, MaxKey)
	}
	return CheckForeignKey(key)
}

// CheckForeignKey is CheckKey without the limit of length: other programs' files must be visible and removable.
func CheckForeignKey(key string) error {
	if strings.IndexByte(key, 0) >= 0 {
		return fmt.Errorf("%w: holds a NUL byte", ErrKey)
	}
	first, _, _ := strings.Cut(key, "/")
	if strings.EqualFold(first, Reserved) {
		return fmt.Errorf("%w: %s is reserved", ErrKey, Reserved)
	}
	for rest, more := key, true; more; {
		var segment string
		segment, rest, more = strings.Cut(rest, "/")
		if segment == "" || segment == "." || segment == ".." {
			return fmt.Errorf("%w: empty, \".\" or \"..\" segment", ErrKey)
		}
	}
	return nil
}

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
