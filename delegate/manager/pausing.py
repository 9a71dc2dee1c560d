"""A task that pauses, in words for people: on the pages, and by the program."""

from delegate.manager.views import TaskSummary


def state_of(task: TaskSummary) -> str:
    """Its outcome or state; `paused` or `held` where it runs and waits for somebody or something."""
    if task.paused is not None:
        return "held" if task.paused.held else "paused"
    return task.outcome or task.state


def describe_pause(task: TaskSummary) -> str:
    """Where it stands, since when, and how that ends; empty while it is on its way."""
    pause = task.paused
    if pause is None:
        return ""
    if pause.held:
        return f"held at step {pause.step} since {pause.since[:19]}Z (pause {pause.number}): {pause.reason}"
    end = f"until {pause.until[:19]}Z, or until it is resumed" if pause.until else "until it is resumed"
    return f"at step {pause.step} since {pause.since[:19]}Z (pause {pause.number}), {end}"
