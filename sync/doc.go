// Package sync knows how to bring a mirror in step with its Source: inputs become wants and coverage, one reconciler
// turns wants into files (CONTRIBUTING.md 3). It refuses to know how bytes travel (destination/fetch), where rows and
// files are kept (store, store/blob), and who asked for the work (cmd).
//
// It is imported under the alias syncengine everywhere outside. A program that catches up now and then calls
// [Engine.Run]. One that stays calls [Engine.Follow], runs [Follower.Run] and gives [Follower.Do] the slices of work
// that [FollowOptions.Later] asked for. The two examples do this.
//
// # From an entry of a Change List to a file
//
// This is the way of one entry through a scheduled pull, function by function. [Engine.Run] is a [Follower] that is
// asked once: it begins at the second station.
//
//  1. queue.Local.Run carries out the pull that is due, in a goroutine of its own. The caller has [Follower.Do] do
//     [WorkPull].
//  2. Follower.pullAll finds out what is offered (destination.Discover) and takes up each set.
//  3. Follower.pullSet makes a pull.Puller, which reads the coverage and its holes (Puller.Start). A set without a
//     position takes a baseline from the Resource List; else Puller.Changes reads the Change Lists.
//  4. Puller.walkChanges has destination.Reader.Walk ask for the documents that changeReader.Enter lets in.
//  5. changeReader.List gets the entries of a document one by one. Selection.ChangeOf says each in the terms of the
//     state.
//  6. changeList.place has merge.Placer give them versions, and Planner.Add collects them into batches.
//  7. Planner.merge asks merge.Merge what an entry makes of the row that the store has.
//  8. Planner.FlushWith commits the wants (Planner.changes), the last of a walk together with the coverage that its
//     lists prove (coverage.Coverage.AddDocument).
//  9. Planner.written gives what has work to the transfer.Workset: new rows as they were written, others by their
//     ids.
//  10. conductor.page takes them into its queue, in the goroutine of the transfer.Reconciler. conductor.handOut gives
//     them to workers.
//  11. Reconciler.work looks whether the file is right (merge.Satisfied). Else it downloads it into a blob.Stage and
//     checks length and hash (Reconciler.bring).
//  12. conductor.collect puts finished resources into a group, and conductor.step closes it.
//  13. Reconciler.settle makes the files of a group durable and gives them their names (blob.Mirror.Place).
//  14. Reconciler.record commits their rows. What failed stays owed, with the time of its next try.
//  15. Once the Reconciler rests, Follower.rested asks for [WorkConclude]. Follower.conclude commits the [Result] of
//     the set as its last store.Run.
//
// Removals leave the way at the tenth station: Reconciler.removeSome carries them out. A hole in the coverage becomes a
// store.Gap, and coverage.JudgeGap says what closes it.
//
// A kill at any moment costs repeated work only: wants are recorded before files change, and coverage never before
// the wants that it proves.
//
// # From a push to a file
//
// A hub posts to the URL of a subscription, which destination/subscribe made and renews.
//
//  1. callback.Callback finds the subscription by the token in the path, checks the signature over the raw bytes and
//     commits the delivery to the inbox (store.Inbox) before it answers 200. callback.Options.Wake then tells whose
//     inbox it was.
//  2. The caller has the Follower do [WorkNotify] in its turn. [Follower.Heard] has a slice that waits for a document
//     take it up at once.
//  3. The slice reads the inbox and gives the deliveries of each set to a pull.PushReader. parsed.ReadNotice reads a
//     signed one; an unsigned one proves nothing and only asks for a pull ([Follower.Hint]).
//  4. Its entries go through the same Planner as those of lists, marked as pushed. Its interval is added by
//     coverage.Coverage.AddNotification. Wants, coverage, holes and the end of the delivery are one commit.
//  5. The rows go to the Reconciler ahead of others, some before their commit is made. No file gets its name before
//     the delivery and its wants are durable.
//  6. A deletion is carried out only when the Source itself answers that the resource is gone.
//  7. When the last row of the notification is settled, [Observer.Mirrored] is told.
//  8. A hole before the notification waits for [FollowOptions.ReorderGrace]. Then [WorkGap] reads the Change Lists as
//     above.
package sync
