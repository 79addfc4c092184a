package spill

import (
	"errors"
	"os"
)

// tempFile makes a file for what does not fit in memory; "" is the system's folder. It is removed at once: while it is
// open it stays, and a kill leaves nothing. Windows lets dropTemp remove it only.
func tempFile(dir, pattern string) (*os.File, error) {
	file, err := os.CreateTemp(dir, pattern)
	if err == nil {
		_ = os.Remove(file.Name())
	}
	return file, err
}

// dropTemp closes and removes a file of tempFile; nil is none.
func dropTemp(file *os.File) error {
	if file == nil {
		return nil
	}
	err := file.Close()
	if rerr := os.Remove(file.Name()); !errors.Is(rerr, os.ErrNotExist) {
		err = errors.Join(err, rerr)
	}
	return err
}
