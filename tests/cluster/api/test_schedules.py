"""CronJobs. Nobody waits for a minute: a schedule that was missed, by what the status says, is made up for at once."""

import datetime as dt
from typing import Any

from tests.simulator.clients import Client

TIME = "%Y-%m-%dT%H:%M:%SZ"
SCHEDULED_AT = "batch.kubernetes.io/cronjob-scheduled-timestamp"


def cron_job(image: str = "task:1", **spec: Any) -> dict[str, Any]:
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": image}]}}
    made = {"schedule": "* * * * *", "jobTemplate": {"metadata": {"labels": {"of": "c"}}, "spec": {"template": template}}, **spec}
    return {"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "c"}, "spec": made}


async def miss(admin: Client, path: str, minutes: int = 5) -> dt.datetime:
    """Has a CronJob believe that it last ran a while before it was made; gives the time that it was made."""
    body = await admin.get(path)
    made = dt.datetime.strptime(body["metadata"]["creationTimestamp"], TIME).replace(tzinfo=dt.UTC)
    last = (made - dt.timedelta(minutes=minutes)).strftime(TIME)
    answer = await admin.patch(f"{path}/status", {"status": {"lastScheduleTime": last}})
    assert answer.status == 200, answer.body
    return made


async def jobs_of(admin: Client, place: str, count: int) -> list[Any]:
    found = await admin.until(f"/apis/batch/v1{place}/jobs", lambda body: len(body["items"]) >= count)
    return list(found["items"])


async def test_makes_a_job_when_its_time_has_come(admin: Client, place: str) -> None:
    """One for all that was missed: owned, with the template's labels, named and noted after its time."""
    path = f"/apis/batch/v1{place}/cronjobs/c"
    made = (await admin.apply(path, cron_job("task:broken"))).body
    await miss(admin, path)
    job = (await jobs_of(admin, place, 1))[0]
    owner = job["metadata"]["ownerReferences"][0]
    at = dt.datetime.strptime(job["metadata"]["annotations"][SCHEDULED_AT], TIME).replace(tzinfo=dt.UTC)
    seen = await admin.until(path, lambda body: bool(body["status"].get("active")))

    assert (owner["kind"], owner["uid"], owner["controller"]) == ("CronJob", made["metadata"]["uid"], True)
    assert job["metadata"]["labels"]["of"] == "c"
    assert job["metadata"]["name"] == f"c-{int(at.timestamp()) // 60}"
    assert job["metadata"]["name"] in [item["name"] for item in seen["status"]["active"]]
    assert seen["status"]["lastScheduleTime"] >= at.strftime(TIME)
    events = await admin.get(f"/api/v1{place}/events", fieldSelector="involvedObject.kind=CronJob")
    assert f"Created job {job['metadata']['name']}" in [item["message"] for item in events["items"]]


async def test_a_suspended_one_waits(admin: Client, place: str) -> None:
    """It makes nothing however much it missed; resumed, it does."""
    path = f"/apis/batch/v1{place}/cronjobs/c"
    await admin.apply(path, cron_job(suspend=True))
    await miss(admin, path)
    # What its controller has seen to by now, it would have done before: a second CronJob has made its Job.
    other = {**cron_job(), "metadata": {"name": "d"}}
    await admin.apply(f"/apis/batch/v1{place}/cronjobs/d", other)
    await miss(admin, f"/apis/batch/v1{place}/cronjobs/d")
    owners = [job["metadata"]["ownerReferences"][0]["name"] for job in await jobs_of(admin, place, 1)]
    assert set(owners) == {"d"}
    await admin.patch(path, {"spec": {"suspend": False}})

    def resumed(body: Any) -> bool:
        return "c" in [job["metadata"]["ownerReferences"][0]["name"] for job in body["items"]]

    await admin.until(f"/apis/batch/v1{place}/jobs", resumed)


async def miss_again(admin: Client, path: str, ago: int) -> None:
    """Has an hourly one be due some minutes before it was made. A new schedule alone would not have it looked at."""
    body = await admin.get(path)
    made = dt.datetime.strptime(body["metadata"]["creationTimestamp"], TIME).replace(tzinfo=dt.UTC)
    schedule = f"{(made - dt.timedelta(minutes=ago)).minute} * * * *"
    answer = await admin.patch(path, {"spec": {"schedule": schedule, "suspend": False}})
    assert answer.status == 200, answer.body
    await miss(admin, path, minutes=ago + 1)


async def test_forbids_a_second_job(admin: Client, place: str) -> None:
    """While the first one runs, with an event that says so."""
    path = f"/apis/batch/v1{place}/cronjobs/c"
    await admin.apply(path, cron_job("task:broken", concurrencyPolicy="Forbid", suspend=True))
    await miss_again(admin, path, 20)
    first = (await jobs_of(admin, place, 1))[0]
    await admin.until(path, lambda body: bool(body["status"].get("active")))
    await miss_again(admin, path, 10)
    query = {"fieldSelector": "involvedObject.name=c,reason=JobAlreadyActive"}
    events = await admin.until(f"/api/v1{place}/events", lambda body: bool(body["items"]), **query)

    expected = "Not starting job because prior execution is running and concurrency policy is Forbid"
    assert (events["items"][0]["type"], events["items"][0]["message"]) == ("Normal", expected)
    assert [job["metadata"]["uid"] for job in await jobs_of(admin, place, 1)] == [first["metadata"]["uid"]]


async def test_replaces_a_job(admin: Client, place: str) -> None:
    """By the one whose time has come."""
    path = f"/apis/batch/v1{place}/cronjobs/c"
    await admin.apply(path, cron_job("task:broken", concurrencyPolicy="Replace", suspend=True))
    await miss_again(admin, path, 20)
    first = (await jobs_of(admin, place, 1))[0]["metadata"]["name"]
    await admin.until(path, lambda body: bool(body["status"].get("active")))
    await miss_again(admin, path, 10)
    jobs = f"/apis/batch/v1{place}/jobs"
    await admin.until_gone(f"{jobs}/{first}")

    left = await admin.until(jobs, lambda body: len(body["items"]) == 1)
    assert left["items"][0]["metadata"]["name"] > first


async def test_does_nothing_twice(admin: Client, place: str) -> None:
    """A time whose Job is there already has been seen to, whatever the status says of the last time."""
    path = f"/apis/batch/v1{place}/cronjobs/c"
    await admin.apply(path, cron_job("task:broken", concurrencyPolicy="Forbid", suspend=True))
    await miss_again(admin, path, 20)
    first = (await jobs_of(admin, place, 1))[0]["metadata"]
    await admin.until(path, lambda body: bool(body["status"].get("active")))
    await miss(admin, path, minutes=30)
    other = {**cron_job(), "metadata": {"name": "d"}}
    await admin.apply(f"/apis/batch/v1{place}/cronjobs/d", other)
    await miss(admin, f"/apis/batch/v1{place}/cronjobs/d")
    found = await jobs_of(admin, place, 2)
    events = await admin.get(f"/api/v1{place}/events", fieldSelector="involvedObject.name=c,reason=JobAlreadyActive")

    assert [job["metadata"]["uid"] for job in found if job["metadata"]["name"].startswith("c-")] == [first["uid"]]
    assert events["items"] == []


async def test_a_start_can_be_too_late(admin: Client, place: str) -> None:
    """What was missed by more than the deadline is not made up for: an hourly one that is due again in a while makes nothing."""
    path = f"/apis/batch/v1{place}/cronjobs/c"
    made = (await admin.apply(path, cron_job(suspend=True))).body
    now = dt.datetime.strptime(made["metadata"]["creationTimestamp"], TIME).replace(tzinfo=dt.UTC)
    hourly = f"{(now - dt.timedelta(minutes=20)).minute} * * * *"
    await admin.patch(path, {"spec": {"schedule": hourly, "startingDeadlineSeconds": 60, "suspend": False}})
    await miss(admin, path, minutes=90)
    other = {**cron_job(), "metadata": {"name": "d"}}
    await admin.apply(f"/apis/batch/v1{place}/cronjobs/d", other)
    await miss(admin, f"/apis/batch/v1{place}/cronjobs/d")

    assert {job["metadata"]["ownerReferences"][0]["name"] for job in await jobs_of(admin, place, 1)} == {"d"}


async def test_keeps_the_last_jobs(admin: Client, place: str) -> None:
    """As many as its history limit says; the oldest goes when a newer one is over."""
    path = f"/apis/batch/v1{place}/cronjobs/c"
    await admin.apply(path, cron_job(successfulJobsHistoryLimit=1, suspend=True))
    owner = (await admin.get(path))["metadata"]
    reference = {"apiVersion": "batch/v1", "kind": "CronJob", "name": "c", "uid": owner["uid"], "controller": True}
    jobs = f"/apis/batch/v1{place}/jobs"
    for name in ("first", "second"):
        spec = cron_job()["spec"]["jobTemplate"]["spec"]
        await admin.post(jobs, {"metadata": {"name": name, "ownerReferences": [reference]}, "spec": spec})
        if name == "first":
            await admin.until(f"{jobs}/first", lambda body: bool(body["status"].get("completionTime")))

    await admin.until_gone(f"{jobs}/first")
    assert [item["metadata"]["name"] for item in (await admin.get(jobs))["items"]] == ["second"]
