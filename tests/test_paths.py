"""Files that change are noticed at once, however they change; those that don't are not looked at again."""

import mmap
import os
import shutil
import threading

import pytest

from sgemm_tutorial import paths
from sgemm_tutorial.paths import Files

watched = pytest.mark.skipif(
    not (paths._SYSTEM and paths._watch()._local(paths.KERNELS)),
    reason="changes are watched on Linux, on its own file systems",
)


@pytest.fixture(autouse=True)
def watch():
    """A watch of this test's own."""
    paths._watch.cache_clear()
    yield
    paths._watch.cache_clear()


class NoMore:
    """A system that has handed out all the queues that there are."""

    def inotify_init1(self, flags):
        return -1

    def inotify_add_watch(self, queue, path, events):
        return -1


@pytest.fixture(params=["watched", "no inotify", "no more queues", "no more watches", "unreadable", "a network's"])
def system(request, monkeypatch):
    """The system's means to watch files."""
    if request.param == "no inotify":
        monkeypatch.setattr(paths, "_SYSTEM", None)
    elif request.param == "no more queues":
        monkeypatch.setattr(paths, "_SYSTEM", NoMore())
    elif request.param == "no more watches":
        monkeypatch.setattr(paths._Watch, "_add", lambda self, path, events: False)
    elif request.param == "unreadable":
        add = paths._Watch._add
        monkeypatch.setattr(
            paths._Watch, "_add", lambda self, path, events: events != paths.GONE and add(self, path, events)
        )
    elif request.param == "a network's":
        monkeypatch.setattr(paths, "LOCAL", set())


@pytest.fixture
def file(tmp_path):
    """A file three folders down, which was written long ago."""
    path = tmp_path / "outermost" / "outer" / "inner" / "file.cu"
    path.parent.mkdir(parents=True)
    old(path)
    return path


def old(path, text="one"):
    """Write a file as if long ago."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    os.utime(path, (1, 1))


def looked_at(files, monkeypatch):
    """Return the files that a further question looks at."""
    seen = []
    assert files.same()
    with monkeypatch.context() as patched:
        state_of = paths.state_of
        patched.setattr(paths, "state_of", lambda path: seen.append(path) or state_of(path))
        assert files.same()
    return seen


def in_place(file):
    file.write_text("two")


def byte_for_byte(file):
    with open(file, "r+b") as opened:
        opened.write(b"2")


def in_memory(file):
    with open(file, "r+b") as opened, mmap.mmap(opened.fileno(), 3) as memory:
        memory[0] = 2


def renamed_over(file):
    file.with_suffix(".new").write_text("two")
    os.replace(file.with_suffix(".new"), file)


def exchanged(file):
    os.rename(file, file.with_suffix(".old"))
    file.write_text("two")


def deleted(file):
    file.unlink()


def touched(file):
    os.utime(file)


def by_another_name(file):
    """Through a hard link in a folder that nobody watches, made after the file was first looked at."""
    elsewhere = file.parents[3] / "elsewhere"
    elsewhere.mkdir()
    os.link(file, elsewhere / "other.cu")
    assert paths._watch().stamp()  # the link is old news
    (elsewhere / "other.cu").write_text("two")


def with_its_folder(file):
    os.rename(file.parent, file.parent.with_name("away"))
    file.parent.mkdir()
    file.write_text("two")


def with_a_folder_above(file):
    os.rename(file.parents[2], file.parents[2].with_name("away"))
    file.parent.mkdir(parents=True)
    file.write_text("two")


def with_a_link_above(file):
    os.rename(file.parents[1], file.parents[1].with_name("away"))
    shutil.copytree(file.parents[1].with_name("away"), file.parents[1].with_name("copy"))
    os.symlink("copy", file.parents[1])
    file.write_text("two")


def by_a_child(file):
    answer(lambda: bool(file.write_text("two")))


CHANGES = (in_place, byte_for_byte, in_memory, renamed_over, exchanged, deleted, touched, by_another_name)
CHANGES += (with_its_folder, with_a_folder_above, with_a_link_above, by_a_child)


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
@pytest.mark.usefixtures("system")
def test_a_change_is_noticed_at_once(file, change):
    files = Files([file, file.with_name("other.cu")])
    assert files.same() and files.same()
    change(file)
    assert not files.same() and not files.same()


@watched
def test_files_that_do_not_change_are_not_looked_at_again(file, monkeypatch):
    missing = file.with_name("missing.cuh"), file.parent / "missing" / "further" / "in.json"
    assert looked_at(Files([file, *missing]), monkeypatch) == []


@watched
def test_what_happens_beside_them_changes_nothing(file, monkeypatch):
    files = Files([file])
    looked_at(files, monkeypatch)
    file.with_name("other.cu").write_text("two")
    assert looked_at(files, monkeypatch) == []
    renamed_over(file)
    assert not files.same()


def moved_here(file, new):
    old(file.parents[1] / "elsewhere")
    os.rename(file.parents[1] / "elsewhere", new)


@pytest.mark.parametrize(
    "make",
    [lambda file, new: new.write_text(""), moved_here, os.link, os.symlink],
    ids=["written", "moved", "linked", "linked symbolically"],
)
@pytest.mark.usefixtures("system")
def test_a_new_file_is_noticed(file, make):
    for new in (file.with_name("new.cuh"), file.parent / "new" / "new.json"):
        files = Files([new])
        assert files.same() and files.same()
        new.parent.mkdir(exist_ok=True)
        assert files.same() and files.same()
        make(file, new)
        assert not files.same()


@pytest.mark.usefixtures("system")
def test_folders_that_come_are_noticed(file):
    missing = file.parent / "new" / "further" / "in.json"
    old((ready := file.parents[1] / "ready") / "further" / missing.name)
    files = Files([missing])
    assert files.same() and files.same()
    os.rename(ready, missing.parents[1])
    assert not files.same()


@pytest.mark.usefixtures("system")
def test_a_folder_that_comes_during_the_look_is_noticed(file, monkeypatch):
    """Between the question which folder is there and the watch on it."""
    missing = file.parent / "new" / "in.json"
    add = paths._Watch._add
    with monkeypatch.context() as patched:
        patched.setattr(paths._Watch, "_add", lambda *of: missing.parent.mkdir(exist_ok=True) or add(*of))
        files = Files([missing])
    missing.parent.mkdir(exist_ok=True)
    assert files.same() and files.same()
    old(missing)
    assert not files.same()


def test_a_link_to_a_folder_that_is_missing_is_followed_each_time(file):
    target = file.parents[1] / "target"
    os.symlink(target, file.parent / "link")
    files = Files([file.parent / "link" / "in.json"])
    assert files.same() and files.same()
    old(target / "in.json")
    assert not files.same()


@watched
def test_a_folder_above_another_is_watched_for_both(file):
    above, below = Files([file.parents[1] / "new.cu"]), Files([file])
    assert above.same() and below.same()  # for which less is asked of that folder
    (file.parents[1] / "new.cu").write_text("")
    assert not above.same() and below.same()
    renamed_over(file)
    assert not below.same()


def test_files_that_others_write_to_are_looked_at_each_time(file, monkeypatch):
    missing = file.with_name("missing.cuh")
    local = paths._Watch._local
    with monkeypatch.context() as patched:  # a container may have a single file from elsewhere
        patched.setattr(paths._Watch, "_local", lambda self, path: path != file and local(self, path))
        assert file in looked_at(Files([file, missing]), monkeypatch)
    monkeypatch.setattr(paths, "LOCAL", set())
    assert looked_at(Files([file, missing]), monkeypatch) == [file, missing]


def test_links_are_followed_each_time(file, tmp_path, monkeypatch):
    """inotify watches where a link leads to, and not the way there."""
    old(tmp_path / "longer.cu", "another")
    os.symlink(file, tmp_path / "link.cu")
    os.symlink(file.parents[1], tmp_path / "linked")
    link, below = tmp_path / "link.cu", tmp_path / "linked" / "inner" / "file.cu"
    files = Files([file, link, below])
    assert looked_at(files, monkeypatch) in ([link, below], [file, link, below])
    in_place(file)
    assert not files.same()
    for path, target in ((link, "longer.cu"), (tmp_path / "linked", "elsewhere")):
        files = Files([link, below])
        assert files.same() and files.same()
        path.unlink()
        os.symlink(target, path)
        assert not files.same()


def test_a_relative_path_is_looked_at_each_time(file, monkeypatch):
    monkeypatch.chdir(file.parent)
    relative = paths.Path(file.name)
    files = Files([relative])
    assert looked_at(files, monkeypatch) == [relative]
    monkeypatch.chdir("..")
    assert not files.same()


@watched
def test_more_events_than_are_kept(file):
    """The last is lost, and what is lost may be any."""
    most = int(paths.Path("/proc/sys/fs/inotify/max_queued_events").read_text())
    others = [file.with_name(f"{name}.log") for name in "ab"]
    files = Files([file])
    assert files.same() and files.same()
    for other in others:
        other.write_text("")
    for number in range(most + 10):
        os.utime(others[number % 2])  # events that are alike, and come one after the other, are one
    in_place(file)
    assert not files.same()


def answer(ask):
    """Return what a child process says, yes or no."""
    child = os.fork()
    if not child:
        os._exit(3 + bool(ask()))
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert code in (3, 4)
    return code == 4


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no forks here")
def test_a_child_and_its_parent_take_no_events_from_each_other(file):
    files = Files([file])
    assert files.same() and files.same()
    assert answer(lambda: files.same() and files.same())
    touched(file)
    assert not answer(files.same)
    assert not files.same(), "its child has not read this"
    files = Files([file])
    assert files.same() and files.same()
    assert not answer(lambda: files.same() and files.same() and (in_place(file) or files.same()))
    assert not files.same()


def test_threads_do_not_keep_events_from_each_other(file):
    """The one that edits a file asks first, whoever has read the event."""
    files, stop = [Files([file])], threading.Event()

    def ask():
        while not stop.is_set():
            files[0].same()

    threads = [threading.Thread(target=ask) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        for number in range(100):
            assert files[0].same()
            file.write_text("two" * (number + 2))
            assert not files[0].same()
            files[0] = Files([file])
    finally:
        stop.set()
        for thread in threads:
            thread.join()


@watched
def test_a_queue_that_somebody_has_closed_is_no_error(file):
    """Programs that go into the background close it."""
    files = Files([file])
    assert files.same() and files.same()
    os.close(paths._watch()._queue)
    assert files.same() and files.same()
    in_place(file)
    assert not files.same()
    paths._watch()._queue = -1


def test_settled(file):
    assert Files([file, file.with_name("missing")]).settled
    touched(file)
    assert not Files([file]).settled
