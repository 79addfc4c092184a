package blob

import (
	"fmt"
	"strings"
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
