package keymap

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"
)

const upperHex = "0123456789ABCDEF"

// The safe bytes A-Z a-z 0-9 - _ . ~ + , = @ ( ) as two bit sets: bytes 0 to 63 and 64 to 127.
const (
	safeLow  = 0x3ff<<'0' | 1<<'-' | 1<<'.' | 1<<'+' | 1<<',' | 1<<'=' | 1<<'(' | 1<<')'
	safeHigh = 0x3ffffff<<('A'-64) | 0x3ffffff<<('a'-64) | 1<<('_'-64) | 1<<('~'-64) | 1<<('@'-64)
)

func safeByte(c byte) bool {
	switch {
	case c < 64:
		return uint64(safeLow)>>c&1 != 0
	case c < 128:
		return uint64(safeHigh)>>(c-64)&1 != 0
	}
	return false
}

func isHex(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F'
}

func lower(c byte) byte {
	if 'A' <= c && c <= 'Z' {
		c += 'a' - 'A'
	}
	return c
}

func appendHex(b []byte, c byte) []byte { return append(b, '%', upperHex[c>>4], upperHex[c&15]) }

// appendEscaped encodes unsafe bytes and keeps valid escapes as they stand.
func appendEscaped(b []byte, text string, toLower bool) []byte {
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case safeByte(c):
			if toLower {
				c = lower(c)
			}
			b = append(b, c)
		case c == '%' && i+2 < len(text) && isHex(text[i+1]) && isHex(text[i+2]):
			b = append(b, text[i:i+3]...)
			i += 2
		default:
			b = appendHex(b, c)
		}
	}
	return b
}

// escapeTrailingDots encodes the dots at the end, which Windows drops.
func escapeTrailingDots(b []byte, start int) []byte {
	end := len(b)
	for end > start && b[end-1] == '.' {
		end--
	}
	for dots := len(b) - end; dots > 0; dots-- {
		b = append(b[:end], "%2E"...)
		end = len(b)
	}
	return b
}

// reservedNames are the device names of Windows.
var reservedNames = strings.Fields("con prn aux nul conin$ conout$ com1 com2 com3 com4 com5 com6 com7 com8 com9 " +
	"com¹ com² com³ lpt1 lpt2 lpt3 lpt4 lpt5 lpt6 lpt7 lpt8 lpt9 lpt¹ lpt² lpt³")

func reservedName(name string) bool {
	stem, _, _ := strings.Cut(name, ".")
	if len(stem) < len("con") || len(stem) > len("conout$") || strings.IndexByte("acnlpACNLP", stem[0]) < 0 {
		return false // as nearly all are
	}
	return slices.ContainsFunc(reservedNames, func(r string) bool { return strings.EqualFold(r, stem) })
}

func shorten(b []byte, start int) []byte {
	if len(b)-start <= segmentLimit {
		return b
	}
	return cut(b, start, segmentLimit)
}

// cut keeps the beginning and adds "%h" and a hash of the whole. It cuts no escape in two.
func cut(b []byte, start, limit int) []byte {
	sum := sha256.Sum256(b[start:])
	end := start + limit - hashedTail
	for back := 1; back <= 2; back++ {
		if b[end-back] == '%' {
			end -= back
			break
		}
	}
	b = append(b[:end], "%h"...)
	return hex.AppendEncode(b, sum[:8])
}
