// Package fetch is the only door to the network: it knows how to ask one URL politely, safely and boundedly, or to tell it
// something, and it refuses to know what the bytes mean, where they go and whether they were wanted.
//
// Every rule about the outside lives here, so that no caller can forget one: which addresses may be dialled (P7, F26),
// which redirects are followed (F60), who is sent credentials (P10), how long a peer may take (F54), how much it may send
// (F56), how hard it is asked (F53, F78), and what kind of failure an error is (Kind). Whatever was not an answer that
// can be used comes back as an *Error; to Send any status is one.
package fetch
